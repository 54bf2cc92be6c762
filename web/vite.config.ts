// Builds the page as one file, dist/index.html, with script and style in it. Its Content Security Policy allows only these
// two, by their hashes: no requests, no handlers in attributes, no injected scripts.

import { createHash } from "node:crypto";
import { defineConfig, type Plugin } from "vite";

function hash(text: string): string {
  return `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
}

function oneFile(): Plugin {
  return {
    name: "one-file",
    enforce: "post",
    generateBundle(_options, bundle) {
      let script = "";
      let style = "";
      for (const [name, output] of Object.entries(bundle)) {
        if (output.type === "chunk") {
          script += output.code;
        } else if (name.endsWith(".css")) {
          style += output.source;
        } else {
          continue;
        }
        delete bundle[name];
      }
      // An end tag in a string would end the element.
      if (/<\/script|<!--/i.test(script) || /<\/style/i.test(style)) {
        throw new Error("the script or the style contains an end tag or a comment of HTML");
      }
      const page = bundle["index.html"];
      if (page?.type !== "asset") throw new Error("vite made no index.html");
      page.source = String(page.source)
        .replace(/\s*<script type="module"[^>]*><\/script>/, "")
        .replace(/\s*<link rel="stylesheet"[^>]*>/, () => `\n<style>${style}</style>`)
        .replace("%script%", () => `<script>${script}</script>`)
        .replace("%policy%", () => `default-src 'none'; script-src ${hash(script)}; style-src ${hash(style)}; img-src data:; base-uri 'none'; form-action 'none'`);
    },
  };
}

export default defineConfig({
  plugins: [oneFile()],
  build: {
    target: "es2022",
    // These support light-dark(); for older browsers the build would duplicate the style.
    cssTarget: ["chrome123", "firefox120", "safari17.5"],
    modulePreload: false,
    cssCodeSplit: false,
    reportCompressedSize: false,
    rollupOptions: { output: { format: "iife" } },
  },
});
