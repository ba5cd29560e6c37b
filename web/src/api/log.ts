import {useEffect, useState} from 'react';

import {keepEnd, readAbout} from '../model/log';
import {ApiError, read} from './client';
import {live} from './queries';

/** held is how long the server may hold a request until the job writes more, in milliseconds. */
const held = 20_000;

export interface Log {
  /** text is undefined until the first answer. */
  text?: string;
  /** skipped is how many bytes are missing because the server does not keep them. */
  skipped: number;
  error?: unknown;
}

/** useLog returns the error output of a job. While the job runs, the text grows; when it has ended, the text is what is kept. */
export function useLog(operation: string, job: string, running: boolean): Log {
  const [log, setLog] = useState<Log>({skipped: 0});
  useEffect(() => {
    const stop = new AbortController();
    void follow(operation, job, running, stop.signal, setLog);
    return () => stop.abort();
  }, [operation, job, running]);
  return log;
}

async function follow(operation: string, job: string, running: boolean, signal: AbortSignal, show: (log: Log) => void) {
  const decoder = new TextDecoder();
  let text = '';
  let offset: number | undefined;
  let skipped = 0;
  for (;;) {
    const began = Date.now();
    try {
      const more = offset === undefined ? {} : {offset, wait_ms: held};
      const response = await read('get_job_stderr', {operation_id: operation, job_id: job, ...more}, signal);
      const about = readAbout(response.headers.get('X-YT-Response-Parameters'));
      text = keepEnd(text + decoder.decode(await response.arrayBuffer(), {stream: true}));
      if (offset !== undefined) skipped += Math.max(0, (about.offset ?? offset) - offset);
      offset = about.end_offset;
      show({text, skipped});
      if (!running || about.ended || offset === undefined) return;
    } catch (error) {
      if (signal.aborted) return;
      show({text: text || undefined, skipped, error});
      if (error instanceof ApiError && !running) return;
    }
    // As often as the rest of the page at most, and not while nobody looks.
    await pause(Math.max(0, began + live - Date.now()), signal);
    while (document.hidden && !signal.aborted) await pause(live, signal);
    if (signal.aborted) return;
  }
}

function pause(time: number, signal: AbortSignal): Promise<void> {
  return new Promise((done) => {
    const timer = setTimeout(done, time);
    signal.addEventListener('abort', () => (clearTimeout(timer), done()), {once: true});
  });
}
