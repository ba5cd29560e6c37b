import {useCallback, useMemo, useSyncExternalStore} from 'react';

// The address determines what a page shows: the path is the place, the query holds filters and modes.

const moved = 'weir:moved';

function subscribe(listener: () => void) {
  window.addEventListener('popstate', listener);
  window.addEventListener(moved, listener);
  return () => {
    window.removeEventListener('popstate', listener);
    window.removeEventListener(moved, listener);
  };
}

export function navigate(to: string, replace = false) {
  if (to === location.pathname + location.search) return;
  if (replace) history.replaceState(null, '', to);
  else history.pushState(null, '', to);
  window.dispatchEvent(new Event(moved));
}

export function usePath(): string[] {
  const path = useSyncExternalStore(subscribe, () => location.pathname);
  return useMemo(() => path.split('/').filter(Boolean).map(decode), [path]);
}

function decode(part: string) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function useQueryString(): URLSearchParams {
  const search = useSyncExternalStore(subscribe, () => location.search);
  return useMemo(() => new URLSearchParams(search), [search]);
}

/** useQueryValue is a state in the address; the fallback value is omitted there. */
export function useQueryValue(key: string, fallback = ''): [string, (value: string) => void] {
  const query = useQueryString();
  const set = useCallback((value: string) => setQuery({[key]: value === fallback ? '' : value}), [key, fallback]);
  return [query.get(key) ?? fallback, set];
}

/** setQuery changes parts of the query; empty values are removed. */
export function setQuery(values: Record<string, string>, replace = true) {
  const query = new URLSearchParams(location.search);
  for (const [key, value] of Object.entries(values)) {
    if (value) query.set(key, value);
    else query.delete(key);
  }
  const text = query.toString();
  navigate(location.pathname + (text ? `?${text}` : ''), replace);
}

/** to builds addresses. */
export const to = {
  home: () => '/',
  scheduling: (tree?: string) => (tree ? `/scheduling?tree=${encodeURIComponent(tree)}` : '/scheduling'),
  pool: (tree: string, pool: string) => `/scheduling/${encodeURIComponent(tree)}/${encodeURIComponent(pool)}`,
  operations: (query: Record<string, string> = {}) => {
    const text = new URLSearchParams(query).toString();
    return text ? `/operations?${text}` : '/operations';
  },
  operation: (id: string, tab?: string) => `/operations/${encodeURIComponent(id)}${tab ? `?tab=${tab}` : ''}`,
  nodes: () => '/nodes',
  node: (address: string) => `/nodes/${encodeURIComponent(address)}`,
  pods: (namespace?: string) => (namespace ? `/pods?namespace=${encodeURIComponent(namespace)}` : '/pods'),
  pod: (namespace: string, name: string) => `/pods/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`,
  preemptions: () => '/preemptions',
  reports: (report?: string) => (report ? `/reports?report=${report}` : '/reports'),
  events: () => '/events',
  simulator: () => '/simulator',
  whatIf: (document?: string) => (document ? `/what-if?document=${encodeURIComponent(document)}` : '/what-if'),
};
