// Builds the whole page as one file, dist/index.html: its script and its style stand in it, and its Content Security
// Policy allows exactly these two, by their hashes, and nothing else: no request, no handler in an attribute, no
// script that a hostile name smuggles in.

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
      // What would end the element early stands in no string of ours, and none of a library's may bring it in.
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
    // Browsers that know light-dark(), which the style is made of; older ones would get twice as much of it.
    cssTarget: ["chrome123", "firefox120", "safari17.5"],
    modulePreload: false,
    cssCodeSplit: false,
    reportCompressedSize: false,
    rollupOptions: { output: { format: "iife" } },
  },
});
