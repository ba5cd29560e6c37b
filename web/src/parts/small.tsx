import {Button, ClipboardButton, Dialog, Label, type LabelProps, useToaster} from '@gravity-ui/uikit';
import {type ReactNode, useEffect, useMemo, useRef, useState} from 'react';

import {reasons} from '../api/client';
import {refresh} from '../api/queries';
import {duration, longMoment, moment} from '../model/format';
import {useTexts} from '../text/i18n';
import {GuardedButton} from './guarded';
import {Problem} from './states';

const themes: Record<string, LabelProps['theme']> = {
  running: 'info', completed: 'success', failed: 'danger', aborted: 'warning', aborting: 'warning', suspended: 'warning',
  pending: 'normal', materializing: 'normal', online: 'success', offline: 'danger', banned: 'danger', refused: 'danger',
  starving: 'warning', aggressively_starving: 'danger', below_fair_share: 'warning', normal: 'normal', waiting: 'unknown',
  burst: 'utility', relaxed: 'info',
};

/** State shows a state of the server as a coloured word. */
export function State({name, extra}: {name: string; extra?: string}) {
  const {word} = useTexts();
  return (
    <Label theme={themes[name] ?? 'normal'} size="xs">
      {word(name)}
      {extra ? ` ${extra}` : ''}
    </Label>
  );
}

/** Command shows the equivalent command line, to copy. */
export function Command({text}: {text: string}) {
  const {t} = useTexts();
  return (
    <div className="command">
      <code>{text}</code>
      <ClipboardButton text={text} size="s" aria-label={t('Copy the command')} />
    </div>
  );
}

/** Copyable is a text with a button to copy it. */
export function Copyable({text}: {text: string}) {
  const {t} = useTexts();
  return (
    <span className="copyable">
      <code>{text}</code>
      <ClipboardButton text={text} size="xs" aria-label={t('Copy')} />
    </span>
  );
}

/** Facts is a list of names and values. */
export function Facts({items}: {items: [string, ReactNode][]}) {
  return (
    <dl className="facts">
      {items.map(([name, value]) => (
        <div key={name} className="facts__item">
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

export function Section({title, children, actions}: {title: string; children: ReactNode; actions?: ReactNode}) {
  return (
    <section className="section">
      <div className="section__head">
        <h2>{title}</h2>
        {actions}
      </div>
      {children}
    </section>
  );
}

/** Age shows the time since an instant and updates itself. */
export function Age({since, until}: {since: string; until?: string | null}) {
  const {locale} = useTexts();
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    if (until) return;
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [until]);
  const end = until ? new Date(until).getTime() : now;
  return <>{duration(end - new Date(since).getTime(), locale)}</>;
}

/** Moment shows an instant, and its date and time zone on a closer look. */
export function Moment({at}: {at: string | null | undefined}) {
  const {locale} = useTexts();
  return at ? (
    <time dateTime={at} title={longMoment(at, locale)}>
      {moment(at, locale)}
    </time>
  ) : (
    <>–</>
  );
}

interface ConfirmProps {
  title: string;
  action: string;
  danger?: boolean;
  command?: string;
  children?: ReactNode;
  disabled?: boolean;
  /** refusal is why the reader may not do it. */
  refusal?: string;
  run: () => Promise<unknown>;
  done: string;
  onClose: () => void;
}

/** Confirm asks before a change, and shows why it was refused. */
export function Confirm({title, action, danger, command, children, disabled, refusal = '', run, done, onClose}: ConfirmProps) {
  const {t} = useTexts();
  const toaster = useToaster();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const content = useRef<HTMLDivElement>(null);
  // Focus goes to the first field, if there is one. The dialog is not in the document yet.
  const first = useMemo(
    () => ({
      get current() {
        return content.current?.querySelector<HTMLElement>('input:not([type=checkbox]), textarea') ?? null;
      },
    }),
    [],
  );
  const apply = async () => {
    setBusy(true);
    setError(undefined);
    try {
      await run();
      toaster.add({name: `${title}-${Date.now()}`, title: done, theme: 'success', autoHiding: 4000});
      await refresh();
      onClose();
    } catch (refused) {
      setError(refused);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog open onClose={onClose} maxWidth="m" fullWidth aria-label={title} initialFocus={first} disableTransition>
      <Dialog.Header caption={title} />
      <Dialog.Body>
        <div className="stack" ref={content}>
          {children}
          {command && (
            <div>
              <div className="muted">{t('Equivalent command')}</div>
              <Command text={command} />
            </div>
          )}
          {error !== undefined && <Problem error={error} />}
        </div>
      </Dialog.Body>
      <div className="dialog__footer">
        <Button view="flat" size="l" onClick={onClose}>
          {t('Cancel')}
        </Button>
        <GuardedButton
          view={danger ? 'outlined-danger' : 'action'} size="l" loading={busy} disabled={disabled} refusal={refusal} onClick={() => void apply()}
        >
          {action}
        </GuardedButton>
      </div>
    </Dialog>
  );
}

/** messageOf returns a refusal in one line. */
export function messageOf(error: unknown): string {
  return reasons(error).join(': ');
}
