import {keepPreviousData, QueryClient, useQuery} from '@tanstack/react-query';
import {useEffect, useRef, useState, useSyncExternalStore} from 'react';

import {ApiError, call, get, type Parameters, signedOut, type Signal} from './client';

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      retry: false,
      refetchOnWindowFocus: true,
      refetchIntervalInBackground: false,
      gcTime: 60_000,
      placeholderData: keepPreviousData,
    },
  },
});

export function useSignal<T>(signal: Signal<T>): T {
  return useSyncExternalStore(signal.subscribe, signal.get);
}

export interface Watch {
  /** every is the polling interval in milliseconds; 0 means once. */
  every?: number;
  enabled?: boolean;
  /** large answers are not compared with the previous ones. */
  large?: boolean;
}

// The page polls slow answers less often, so that it does not keep a large cluster busy.
const durations = new Map<string, number>();

function useWatched<T>(key: unknown[], load: (signal: AbortSignal) => Promise<T>, watch: Watch) {
  const name = JSON.stringify(key);
  return useQuery<T>({
    queryKey: key,
    queryFn: async ({signal}) => {
      const start = performance.now();
      const answer = await load(signal);
      durations.set(name, performance.now() - start);
      return answer;
    },
    enabled: watch.enabled ?? true,
    structuralSharing: !watch.large,
    refetchInterval: (query) => {
      if (!watch.every || signedOut.get()) return false;
      // Do not retry a refused request for a while.
      if (query.state.error instanceof ApiError) return Math.max(watch.every, 5000);
      return Math.max(watch.every, 5 * (durations.get(name) ?? 0));
    },
  });
}

/** useCommand watches the answer of a command. */
export function useCommand<T>(command: string, parameters: Parameters = {}, watch: Watch = {}) {
  return useWatched<T>([command, parameters], (signal) => call<T>(command, parameters, signal), watch);
}

export type Run<T> = {state: 'idle'} | {state: 'running'} | {state: 'done'; answer: T} | {state: 'refused'; error: unknown};

/** useAnswer sends a command that takes long when the reader asks for it, one at a time. Leaving the page stops it. */
export function useAnswer<T>(command: string) {
  const [run, setRun] = useState<Run<T>>({state: 'idle'});
  const controller = useRef<AbortController>(undefined);
  useEffect(() => () => controller.current?.abort(), []);
  const start = async (parameters: Parameters) => {
    controller.current?.abort();
    const own = new AbortController();
    controller.current = own;
    setRun({state: 'running'});
    try {
      const answer = await call<T>(command, parameters, own.signal);
      if (!own.signal.aborted) setRun({state: 'done', answer});
    } catch (error) {
      if (!own.signal.aborted) setRun({state: 'refused', error});
    }
  };
  const stop = () => {
    controller.current?.abort();
    setRun({state: 'idle'});
  };
  return {run, start, stop};
}

/** useGet watches the value at a path. */
export function useGet<T>(path: string, more: Parameters = {}, watch: Watch = {}) {
  return useWatched<T>(['get', path, more], (signal) => get<T>(path, more, signal), watch);
}

/** refresh repeats all requests after a change. */
export function refresh() {
  return queryClient.invalidateQueries();
}

export const live = 2000;
export const orchid = '//sys/scheduler/orchid/scheduler';
