import react from '@vitejs/plugin-react';
import {defineConfig} from 'vitest/config';

// The page is built into the Go package that embeds it. WEIR_ADDR is the scheduler that the
// development server passes requests of the API on to.
const scheduler = `http://${process.env['WEIR_ADDR'] ?? '127.0.0.1:7070'}`;

// A scheduler without tokens refuses requests of pages that are not its own; those of the
// development server are let through as a program's.
const passOn = {
  target: scheduler,
  changeOrigin: true,
  headers: {origin: scheduler},
};

export default defineConfig({
  plugins: [react()],
  build: {
    outDir: '../internal/control/web/dist',
    emptyOutDir: false,
    assetsInlineLimit: 0,
    modulePreload: {polyfill: false},
    chunkSizeWarningLimit: 900,
  },
  server: {
    proxy: {'/api': passOn, '/auth': passOn},
  },
  test: {include: ['src/**/*.test.ts']},
});
