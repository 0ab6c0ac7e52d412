import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

export default defineConfig({
  plugins: [react()],
  build: {
    outDir: process.env["CONSOLE_OUT"] ?? "../src/headrace/gateway/http/console",
    emptyOutDir: true,
    // An inline file would be a data: address; the content security policy only allows those for images.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    sourcemap: false,
    target: "es2022",
  },
  // Tests read the colours of the style sheet.
  test: { css: true },
  // `npm run dev` shows the gateway of this machine.
  server: { proxy: { "/api": "http://127.0.0.1:7434" } },
});
