import {Alert, Skeleton} from '@gravity-ui/uikit';
import type {ReactNode} from 'react';

import {ApiError, ConnectionError, reasons} from '../api/client';
import {useTexts} from '../text/i18n';

/** Problem shows why something is missing or was refused, in the server's words. */
export function Problem({title, error}: {title?: string; error?: unknown}) {
  const {t} = useTexts();
  const list = error === undefined ? [] : reasons(error);
  const head = title ?? (error instanceof ConnectionError ? t('The scheduler does not answer') : t('The server refused the request'));
  return (
    <Alert
      className="problem"
      theme="danger"
      title={head}
      message={
        list.length > 0 && (
          <ul className="reasons">
            {list.map((text) => (
              <li key={text}>{text}</li>
            ))}
          </ul>
        )
      }
    />
  );
}

export function Empty({children}: {children: ReactNode}) {
  return <div className="empty">{children}</div>;
}

export function Waiting({lines = 5}: {lines?: number}) {
  const {t} = useTexts();
  return (
    <div className="waiting" role="status" aria-label={t('Loading')}>
      {Array.from({length: lines}, (_, i) => (
        <Skeleton key={i} className="waiting__line" />
      ))}
    </div>
  );
}

interface Answer<T> {
  data: T | undefined;
  error: Error | null;
}

/** Loaded shows an answer, or that it is still loading, or why there is none. It keeps showing the last
 * answer. */
export function Loaded<T>({of, children, lines}: {of: Answer<T>; children: (data: T) => ReactNode; lines?: number}) {
  const {t} = useTexts();
  if (of.data !== undefined) {
    return (
      <>
        {of.error instanceof ApiError && <Problem title={t('This was the state until the server refused to tell more')} error={of.error} />}
        {children(of.data)}
      </>
    );
  }
  if (of.error) return <Problem error={of.error} />;
  return <Waiting lines={lines} />;
}
