// Open HTML files in Chromium at two widths and in both themes, and check them with axe-core.
// Prints one JSON object per file, width and theme: console errors, network requests, violations, overflow.
//
//   node tests/pages.mjs FOLDER CHROMIUM FILE…
//
// FOLDER contains node_modules with axe-core and puppeteer-core: npm install --prefix FOLDER axe-core puppeteer-core
import { createRequire } from "node:module";
import { mkdirSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, chromium, ...files] = process.argv.slice(2);
const require = createRequire(join(resolve(folder), "package.json"));
const puppeteer = require("puppeteer-core");
const axe = require.resolve("axe-core/axe.min.js");
const shots = process.env.SCREENSHOTS;
if (shots) mkdirSync(shots, { recursive: true });

const browser = await puppeteer.launch({
  executablePath: chromium,
  args: ["--no-sandbox", "--disable-gpu", "--allow-file-access-from-files"],
  protocolTimeout: 600_000,
});
for (const file of files) {
  for (const theme of ["light", "dark"]) {
    for (const width of [390, 1280]) {
      const page = await browser.newPage();
      const errors = [], requests = [];
      page.on("pageerror", (error) => errors.push(String(error)));
      page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
      page.on("request", (request) => /^(https?|wss?):/.test(request.url()) && requests.push(request.url()));
      await page.setViewport({ width, height: 900 });
      await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: theme }]);
      await page.goto(pathToFileURL(resolve(file)).href, { waitUntil: "load" });
      const overflow = await page.evaluate(
        () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
      );
      await page.addScriptTag({ path: axe });
      const found = await page.evaluate(() => axe.run({ resultTypes: ["violations"] }));
      const violations = found.violations.map((one) => ({
        id: one.id,
        impact: one.impact,
        nodes: one.nodes.slice(0, 3).map((node) => node.html.slice(0, 200)),
        count: one.nodes.length,
      }));
      if (shots) {
        await page.screenshot({ path: join(shots, `${basename(file, ".html")}-${theme}-${width}.png`) });
      }
      console.log(JSON.stringify({ file: basename(file), theme, width, errors, requests, overflow, violations }));
      await page.close();
    }
  }
}
await browser.close();
