// The page uses only the scheduler's public API: POST /api/v4/<command> with parameters as JSON, answered
// with a value or an error as JSON.

export interface ErrorDocument {
  code: number;
  message: string;
  attributes?: Record<string, unknown>;
  inner_errors?: ErrorDocument[];
}

/** ApiError is a refusal of the server, with its reasons. */
export class ApiError extends Error {
  readonly document: ErrorDocument;
  constructor(document: ErrorDocument) {
    super(document.message);
    this.document = document;
  }
}

/** ConnectionError reports that the API did not answer. */
export class ConnectionError extends Error {}

const tokenKey = 'weir.token';

export const token = {
  get: () => sessionStorage.getItem(tokenKey) ?? '',
  set: (value: string) => (value ? sessionStorage.setItem(tokenKey, value) : sessionStorage.removeItem(tokenKey)),
};

/** A Signal is a value outside React that components can watch. */
export class Signal<T> {
  private listeners = new Set<() => void>();
  constructor(private value: T) {}
  get = () => this.value;
  set = (next: T) => {
    if (Object.is(next, this.value)) return;
    this.value = next;
    this.listeners.forEach((listener) => listener());
  };
  subscribe = (listener: () => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };
}

/** signedOut is true once the server has requested a token. */
export const signedOut = new Signal(false);
/** lostSince is when the server stopped answering; 0 while it answers. */
export const lostSince = new Signal(0);

// YSON strings are bytes; the page needs them as UTF-8.
const json = '<encode_utf8=%false>json';
const codeAuthentication = 900;

function headers(): Record<string, string> {
  const given: Record<string, string> = {
    'Content-Type': 'application/json',
    'X-YT-Input-Format': json,
    'X-YT-Output-Format': json,
  };
  const secret = token.get();
  if (secret) given['Authorization'] = `OAuth ${secret}`;
  return given;
}

async function send(path: string, init: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, {...init, headers: headers(), credentials: 'omit', cache: 'no-store'});
  } catch (cause) {
    if (cause instanceof DOMException && cause.name === 'AbortError') throw cause;
    if (lostSince.get() === 0) lostSince.set(Date.now());
    throw new ConnectionError('the scheduler does not answer', {cause});
  }
  if (response.ok) {
    lostSince.set(0);
    return response;
  }
  throw await refusal(response);
}

async function refusal(response: Response): Promise<Error> {
  const text = await response.text();
  let document: ErrorDocument | undefined;
  try {
    document = JSON.parse(text) as ErrorDocument;
  } catch {
    // This is not an answer of the API: a server in between answered.
  }
  if (typeof document?.message !== 'string') {
    if (response.status >= 500 && lostSince.get() === 0) lostSince.set(Date.now());
    return new ConnectionError(`${response.status} ${response.statusText}`);
  }
  // Without a leader the server answers, but not with the current state.
  if (response.status === 503) {
    if (lostSince.get() === 0) lostSince.set(Date.now());
  } else {
    lostSince.set(0);
  }
  if (response.status === 401 || document.code === codeAuthentication) signedOut.set(true);
  return new ApiError(document);
}

/** signInByAddress signs in with the one-time code of an address such as /#signin=CODE. It removes the code from
 * the address first, so that the code stays neither in the history nor in the address bar; browsers never send
 * this part of an address. If the code was used, the page asks for a token, unless this tab has one. */
export async function signInByAddress(): Promise<void> {
  const [key, code] = window.location.hash.slice(1).split('=');
  if (key !== 'signin' || !code) return;
  window.history.replaceState(null, '', window.location.pathname + window.location.search);
  try {
    const response = await send('/auth/signin', {method: 'POST', body: JSON.stringify({code})});
    token.set(((await response.json()) as {token: string}).token);
  } catch {
    signedOut.set(token.get() === '');
  }
}

export type Parameters = Record<string, unknown>;

/** call runs an API command and returns its answer. */
export async function call<T>(command: string, parameters: Parameters = {}, signal?: AbortSignal): Promise<T> {
  const response = await send(`/api/v4/${command}`, {method: 'POST', body: JSON.stringify(parameters), signal});
  return (await response.json()) as T;
}

/** changeAttributes sets and removes attributes of a node: all of them, or none if the server refuses
 * one. */
export async function changeAttributes(path: string, set: Parameters, removed: string[]): Promise<void> {
  const query = new URLSearchParams([['path', `${path}/@`], ...removed.map((name) => ['remove[]', name])]);
  await send(`/api/v4/multiset_attributes?${query}`, {method: 'PUT', body: JSON.stringify(set)});
}

/** get returns the value at a path. */
export async function get<T>(path: string, more: Parameters = {}, signal?: AbortSignal): Promise<T> {
  return call<T>('get', {path, return_only_value: true, ...more}, signal);
}

/** readText runs a command whose answer is bytes, such as get_job_stderr. */
export async function readText(command: string, parameters: Parameters, signal?: AbortSignal): Promise<string> {
  return (await read(command, parameters, signal)).text();
}

/** read runs a command whose answer is bytes, and returns the answer with its headers. */
export function read(command: string, parameters: Parameters, signal?: AbortSignal): Promise<Response> {
  return send(`/api/v4/${command}`, {method: 'POST', body: JSON.stringify(parameters), signal});
}

/** escapeKey escapes a name for use in a path. */
export function escapeKey(name: string): string {
  return name.replace(/[\\/@&*[{]/g, (c) => `\\${c}`);
}

/** reasons returns the messages of an error, the innermost last, without duplicates. */
export function reasons(error: unknown): string[] {
  if (!(error instanceof ApiError)) return [error instanceof Error ? error.message : String(error)];
  const list: string[] = [];
  const walk = (e: ErrorDocument) => {
    if (e.message && !list.includes(e.message)) list.push(e.message);
    e.inner_errors?.forEach(walk);
  };
  walk(error.document);
  return list;
}
