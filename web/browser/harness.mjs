// Shared by the browser tests: one browser, pages that record errors, and the API to compare the screen with.
import assert from 'node:assert/strict';
import {createRequire} from 'node:module';

import {chromium} from 'playwright-core';

export const base = process.env.WEIR_URL;
const patience = 60_000;

// WEIR_LATENCY delays each answer to the page by up to this many milliseconds. This finds tests that rely on
// something that the server already knows and the page does not.
const latency = Number(process.env.WEIR_LATENCY ?? 0);

let browser;

// The context of pages without options. It keeps the page's script, compiled, from one test to the next.
let shared;

export async function open() {
  browser = await chromium.launch({
    executablePath: process.env.WEIR_CHROMIUM,
    args: [
      '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update',
      '--disable-sync', '--disable-dev-shm-usage',
    ],
  });
}

export async function close() {
  await browser?.close();
}

/** closePages closes what newPage opened: an open page polls the server every second and redraws. The next
 * page finds no settings of an earlier one. */
export async function closePages() {
  await Promise.all(browser.contexts().filter((context) => context !== shared).map((context) => context.close()));
  const pages = shared?.pages() ?? [];
  await pages[0]?.evaluate(() => localStorage.clear());
  await Promise.all(pages.map((page) => page.close()));
}

async function newContext(options = {}) {
  const context = await browser.newContext({viewport: {width: 1280, height: 800}, locale: 'en-US', timezoneId: 'UTC', ...options});
  if (latency > 0) {
    await context.route('**/api/**', async (route) => {
      await new Promise((resolve) => setTimeout(resolve, Math.random() * latency));
      await route.continue().catch(() => {}); // the page may have been closed
    });
  }
  return context;
}

/** newPage opens a place. Script errors and violations of the policy fail a test that calls
 * page.mistakes(). Requests to other hosts are forbidden. */
export async function newPage(path, options) {
  const context = options ? await newContext(options) : (shared ??= await newContext());
  const page = await context.newPage();
  page.setDefaultTimeout(patience);
  const mistakes = [];
  page.on('pageerror', (error) => mistakes.push(`error: ${error.message}`));
  page.on('console', (message) => {
    if (/Content Security Policy|Refused to/.test(message.text())) mistakes.push(message.text());
  });
  page.on('request', (request) => {
    const url = new URL(request.url());
    if (/^https?:$/.test(url.protocol) && url.origin !== new URL(base).origin) mistakes.push(`asked another host: ${request.url()}`);
  });
  page.mistakes = () => assert.deepEqual(mistakes, []);
  await page.goto(base + path);
  return page;
}

/** go moves an open page to a place as its own links do, without loading it again. */
export async function go(page, path) {
  await page.evaluate((to) => {
    history.pushState(null, '', to);
    window.dispatchEvent(new Event('weir:moved'));
  }, path);
}

export async function call(command, parameters = {}, token = process.env.WEIR_TOKEN) {
  const format = '<encode_utf8=%false>json';
  const response = await fetch(`${base}/api/v4/${command}`, {
    method: 'POST',
    headers: {
      'Content-Type': 'application/json', 'X-YT-Input-Format': format, 'X-YT-Output-Format': format,
      ...(token ? {Authorization: `OAuth ${token}`} : {}),
    },
    body: JSON.stringify(parameters),
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(JSON.stringify(answer));
  return answer;
}

export const get = (path, more = {}) => call('get', {path, return_only_value: true, ...more});

/** until repeats an assertion until it holds. */
export async function until(check, what, patient = patience) {
  const deadline = Date.now() + patient;
  for (;;) {
    try {
      return await check();
    } catch (error) {
      if (Date.now() > deadline) throw new Error(`it never happened: ${what}: ${error.message}`);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

/** textOf returns all text of a page. */
export const textOf = (page) => page.locator('#content').innerText();

/** shows waits until the page contains a text. */
export async function shows(page, text) {
  await until(async () => assert.ok((await page.locator('body').innerText()).includes(text)), `the page shows ${JSON.stringify(text)}`);
}

export async function startOperation(spec) {
  const {operation_id: id} = await call('start_operation', {operation_type: 'vanilla', spec});
  return id;
}

export const sleeper = (more = {}) => ({
  title: 'sleeper', pool: 'research', tasks: {t: {job_count: 1, command: 'sleep 600', cpu_limit: 0.1, memory_limit: 67108864}}, ...more,
});

export const axeSource = createRequire(import.meta.url).resolve('axe-core/axe.min.js');
