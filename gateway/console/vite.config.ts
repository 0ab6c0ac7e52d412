import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

export default defineConfig({
  plugins: [react()],
  build: {
    outDir: process.env["CONSOLE_OUT"] ?? "../src/headrace/gateway/http/console",
    emptyOutDir: true,
    // An inline file would be a data: address; the content security policy allows such addresses for images only.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    sourcemap: false,
    target: "es2022",
  },
  test: {
    // Tests read the colours of the style sheet.
    css: true,
    // One thread, and time enough, on whatever machine: processes of their own that start slowly are given up.
    pool: "threads",
    maxWorkers: 1,
    isolate: false,
    testTimeout: 300_000,
    teardownTimeout: 300_000,
  },
  // `npm run dev` shows the gateway of this machine.
  server: { proxy: { "/api": "http://127.0.0.1:7434" } },
});
