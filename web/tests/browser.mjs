// Chromium for tests and screenshots. It records a page's errors and requests.

import { chromium } from "playwright-core";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const PROGRAMS = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/** The path of the browser, if it is installed. */
export const program = PROGRAMS.find((path) => existsSync(path));

const FLAGS = ["--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-quic"];

/**
 * @typedef {{ scheme?: "light" | "dark", width?: number, height?: number }} Look
 * @typedef {{ page: import("playwright-core").Page, errors: string[], requests: string[] }} Opened
 */

export class Browser {
  /** @param {import("playwright-core").BrowserContext} context @param {string} profile */
  constructor(context, profile) {
    this.context = context;
    this.profile = profile;
  }

  static async start() {
    const profile = mkdtempSync(join(tmpdir(), "longhaul-browser-"));
    // Chromium's sandbox does not work as root.
    const args = process.getuid?.() === 0 ? [...FLAGS, "--no-sandbox"] : FLAGS;
    const context = await chromium.launchPersistentContext(profile, { ...(program ? { executablePath: program } : {}), headless: true, args, reducedMotion: "reduce" });
    return new Browser(context, profile);
  }

  /** Opens a file or a URL. @param {string} location @param {Look} [look] @returns {Promise<Opened>} */
  async open(location, { scheme = "light", width = 1280, height = 900 } = {}) {
    const page = await this.context.newPage();
    /** @type {string[]} */
    const errors = [];
    /** @type {string[]} */
    const requests = [];
    page.on("console", (message) => {
      if (message.type() === "error" || message.type() === "warning") errors.push(message.text());
    });
    page.on("pageerror", (error) => errors.push(error.message));
    page.on("request", (request) => requests.push(request.url()));
    await page.setViewportSize({ width, height });
    await page.emulateMedia({ colorScheme: scheme });
    await page.goto(location.startsWith("http") ? location : pathToFileURL(location).href);
    // Waits for the part that is drawn last: the method of a run, or the packets of a capture.
    await page.waitForFunction(() => {
      const last = document.querySelector("#results") ? "#how" : document.querySelector(".account") ? ".ladder" : "body";
      return document.querySelector(last);
    });
    return { page, errors, requests };
  }

  async stop() {
    await this.context.close();
    rmSync(this.profile, { recursive: true, force: true });
  }
}
