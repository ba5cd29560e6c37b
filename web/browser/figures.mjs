// Measures the page with a large cluster: first paint, frames while scrolling, memory. Frames come from
// Chrome's tracing. Prints one JSON document for each place.
import {close, newPage, open} from './harness.mjs';

const places = [
  ['pools folded', '/scheduling?operations=no'],
  ['pools unfolded', '/scheduling?operations=no&expand=all'],
  ['pools and operations unfolded', '/scheduling?operations=yes&expand=all', 40_000],
  ['operations', '/operations'],
];

await open();
for (const [name, path, least] of places) console.log(JSON.stringify({name, ...(await measure(path, least))}));
await close();

/** measure opens a place, waits until its table has at least this many rows, and scrolls it. */
async function measure(path, least = 1) {
  const page = await newPage('/nowhere'); // the script is in the cache, as for a returning visitor
  await page.getByText('Page not found').waitFor();
  const devtools = await page.context().newCDPSession(page);
  await page.goto(new URL(path, page.url()).href);
  await page.waitForFunction(
    (rows) => Number(document.querySelector('[aria-rowcount]')?.getAttribute('aria-rowcount')) > rows && document.querySelector('.grid__body .grid__row'), least,
    {timeout: 300_000},
  );
  const first = await page.evaluate(() => ({
    first_paint_ms: Math.round(performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1),
    rows_ms: Math.round(performance.now()),
    rows: Number(document.querySelector('[aria-rowcount]')?.getAttribute('aria-rowcount')) - 1,
  }));
  const answers = await page.evaluate(() =>
    performance.getEntriesByType('resource').filter((e) => e.name.includes('/api/')).map((e) => ({bytes: e.decodedBodySize, ms: Math.round(e.duration)})),
  );
  const largest = answers.sort((a, b) => b.bytes - a.bytes)[0];
  const events = await traced(devtools, () => scroll(devtools, page));
  await devtools.send('HeapProfiler.enable');
  await devtools.send('HeapProfiler.collectGarbage');
  const {usedSize} = await devtools.send('Runtime.getHeapUsage');
  const nodes = await page.evaluate(() => document.getElementsByTagName('*').length);
  await page.context().close();
  return {...first, answer_bytes: largest?.bytes, answer_ms: largest?.ms, ...framesOf(events), heap_mb: Math.round(usedSize / 1e5) / 10, elements: nodes};
}

async function scroll(devtools, page) {
  const box = await page.locator('.grid').first().boundingBox();
  await devtools.send('Input.synthesizeScrollGesture', {
    x: box.x + box.width / 2, y: box.y + box.height / 2, yDistance: -12_000, speed: 3000, gestureSourceType: 'mouse',
  });
}

async function traced(devtools, act) {
  const events = [];
  devtools.on('Tracing.dataCollected', ({value}) => events.push(...value));
  const ended = new Promise((resolve) => devtools.once('Tracing.tracingComplete', resolve));
  await devtools.send('Tracing.start', {
    transferMode: 'ReportEvents', traceConfig: {includedCategories: ['devtools.timeline', 'disabled-by-default-devtools.timeline', 'disabled-by-default-devtools.timeline.frame']},
  });
  await act();
  await devtools.send('Tracing.end');
  await ended;
  return events;
}

function framesOf(events) {
  const frames = events.filter((e) => e.name === 'DrawFrame').map((e) => e.ts / 1000).sort((a, b) => a - b);
  const gaps = frames.slice(1).map((at, i) => at - frames[i]).sort((a, b) => a - b);
  const tasks = events.filter((e) => e.name === 'RunTask' && e.dur).map((e) => e.dur / 1000);
  const at = (part) => Math.round((gaps[Math.min(gaps.length - 1, Math.floor(gaps.length * part))] ?? -1) * 10) / 10;
  return {frames: frames.length, frame_median_ms: at(0.5), frame_p95_ms: at(0.95), long_tasks: tasks.filter((ms) => ms > 50).length, longest_task_ms: Math.round(Math.max(0, ...tasks))};
}
