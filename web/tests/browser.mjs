// Chromium, as the tests and the screenshots use it: it reaches nothing but files and loopback, and whatever a page
// complains of or asks for is kept.

import { chromium } from "playwright-core";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const PROGRAMS = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/** The browser's program, if there is one. */
export const program = PROGRAMS.find((path) => existsSync(path));

const FLAGS = ["--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-quic"];

/**
 * @typedef {{ scheme?: "light" | "dark", width?: number, height?: number }} Look
 * @typedef {{ page: import("playwright-core").Page, complaints: string[], requests: string[] }} Opened
 */

export class Browser {
  /** @param {import("playwright-core").BrowserContext} context @param {string} profile */
  constructor(context, profile) {
    this.context = context;
    this.profile = profile;
  }

  static async start() {
    const profile = mkdtempSync(join(tmpdir(), "longhaul-browser-"));
    // Root's Chromium has no sandbox of its own.
    const args = process.getuid?.() === 0 ? [...FLAGS, "--no-sandbox"] : FLAGS;
    const context = await chromium.launchPersistentContext(profile, { ...(program ? { executablePath: program } : {}), headless: true, args, reducedMotion: "reduce" });
    return new Browser(context, profile);
  }

  /** Opens a file or an address. @param {string} place @param {Look} [look] @returns {Promise<Opened>} */
  async open(place, { scheme = "light", width = 1280, height = 900 } = {}) {
    const page = await this.context.newPage();
    /** @type {string[]} */
    const complaints = [];
    /** @type {string[]} */
    const requests = [];
    page.on("console", (message) => {
      if (message.type() === "error" || message.type() === "warning") complaints.push(message.text());
    });
    page.on("pageerror", (error) => complaints.push(error.message));
    page.on("request", (request) => requests.push(request.url()));
    await page.setViewportSize({ width, height });
    await page.emulateMedia({ colorScheme: scheme });
    await page.goto(place.startsWith("http") ? place : pathToFileURL(place).href);
    // All of a run is there when it says how it was made, and of a capture when its packets are; other pages are at once.
    await page.waitForFunction(() => {
      const last = document.querySelector("#results") ? "#how" : document.querySelector(".account") ? ".ladder" : "body";
      return document.querySelector(last);
    });
    return { page, complaints, requests };
  }

  async stop() {
    await this.context.close();
    rmSync(this.profile, { recursive: true, force: true });
  }
}
