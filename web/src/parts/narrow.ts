import {useSyncExternalStore} from 'react';

const phone = window.matchMedia('(max-width: 760px)');

function subscribe(listener: () => void) {
  phone.addEventListener('change', listener);
  return () => phone.removeEventListener('change', listener);
}

/** useNarrow reports whether the page is as narrow as a phone; the style sheets use the same width. */
export function useNarrow(): boolean {
  return useSyncExternalStore(subscribe, () => phone.matches);
}
