import {Alert, Button, DropdownMenu, Icon, Label, Popover} from '@gravity-ui/uikit';
import {
  ArrowsRotateRight, Bell, ChartLine, CircleQuestion, CodeFork, Cubes3, Display, FileText, Globe, House, ListUl, Magnifier, Moon, NodesRight, Person, Server, Sun, Thunderbolt, ListTimeline,
} from '@gravity-ui/icons';
import {type ReactNode, useEffect, useState} from 'react';

import {lostSince, signedOut, token} from '../api/client';
import {useUser} from '../api/permissions';
import {refresh, useSignal} from '../api/queries';
import {moment} from '../model/format';
import {Anchor} from '../parts/anchor';
import {type Key, useTexts} from '../text/i18n';
import {alertsOf, useCluster} from './cluster';
import {Logo} from './logo';
import {to, usePath} from './routing';
import {SearchDialog} from './search';
import {locale, theme, type ThemeChoice} from './settings';

const sections: {key: string; title: Key; icon: typeof House; href: string}[] = [
  {key: '', title: 'Cluster', icon: House, href: to.home()},
  {key: 'scheduling', title: 'Scheduling', icon: NodesRight, href: to.scheduling()},
  {key: 'operations', title: 'Operations', icon: ListUl, href: to.operations()},
  {key: 'nodes', title: 'Nodes', icon: Server, href: to.nodes()},
  {key: 'pods', title: 'Pods', icon: Cubes3, href: to.pods()},
  {key: 'preemptions', title: 'Preemptions', icon: Thunderbolt, href: to.preemptions()},
  {key: 'reports', title: 'Reports', icon: FileText, href: to.reports()},
  {key: 'events', title: 'Events', icon: ListTimeline, href: to.events()},
  {key: 'what-if', title: 'What if', icon: CodeFork, href: to.whatIf()},
  {key: 'simulator', title: 'Simulator', icon: ChartLine, href: to.simulator()},
];

/** Frame surrounds every page. */
export function Frame({children}: {children: ReactNode}) {
  const {t} = useTexts();
  const [section = ''] = usePath();
  const [searching, setSearching] = useState(false);
  const kubernetes = useCluster().data?.kubernetes;
  const shown = sections.filter((item) => item.key !== 'pods' || kubernetes);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const typing = event.target instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
      if ((event.key === '/' && !typing) || (event.key.toLowerCase() === 'k' && (event.ctrlKey || event.metaKey))) {
        event.preventDefault();
        setSearching(true);
      }
    };
    window.addEventListener('keydown', onKey);
    return () => window.removeEventListener('keydown', onKey);
  }, []);
  return (
    <div className="frame">
      <a className="skip" href="#content">
        {t('Skip to content')}
      </a>
      <header className="top">
        <Anchor href={to.home()} className="top__brand">
          <Logo />
          <span>Weir</span>
        </Anchor>
        <ClusterName />
        <div className="top__space" />
        <Button view="outlined" size="m" className="top__search" onClick={() => setSearching(true)} aria-label={t('Search')}>
          <Icon data={Magnifier} size={16} />
          <span className="top__hint">{t('Search')}</span>
          <kbd className="top__hint">/</kbd>
        </Button>
        <Alerts />
        <Choices />
      </header>
      <nav className="side" aria-label={t('Sections')}>
        {shown.map((item) => (
          <Anchor
            key={item.key}
            href={item.href}
            className={`side__item${item.key === section ? ' side__item_active' : ''}`}
            current={item.key === section}
          >
            <Icon data={item.icon} size={18} />
            <span>{t(item.title)}</span>
          </Anchor>
        ))}
      </nav>
      <main className="content" id="content" tabIndex={-1}>
        <Stale />
        {children}
      </main>
      {searching && <SearchDialog onClose={() => setSearching(false)} />}
    </div>
  );
}

function ClusterName() {
  const {t} = useTexts();
  const {data} = useCluster();
  if (!data) return null;
  return (
    <span className="top__cluster" title={t('The leader of this cluster')}>
      {data.leader}
      {data.reviving && (
        <Label theme="warning" size="xs">
          {t('reviving')}
        </Label>
      )}
    </span>
  );
}

/** Stale warns that the data shown is out of date. */
function Stale() {
  const since = useSignal(lostSince);
  const {t, locale} = useTexts();
  if (since === 0) return null;
  return (
    <Alert
      className="stale"
      theme="warning"
      title={t('The scheduler does not answer')}
      message={t('This is the state at {time}. The page keeps retrying.', {
        time: moment(new Date(since).toISOString(), locale),
      })}
      actions={
        <Alert.Action onClick={() => void refresh()}>
          <Icon data={ArrowsRotateRight} size={14} /> {t('Retry now')}
        </Alert.Action>
      }
    />
  );
}

function Alerts() {
  const {t} = useTexts();
  const {data} = useCluster();
  const alerts = alertsOf(data);
  return (
    <Popover
      hasArrow
      placement="bottom-end"
      content={
        <div className="popover">
          {alerts.length === 0 ? t('No alerts') : alerts.map((text) => <p key={text}>{text}</p>)}
        </div>
      }
    >
      <Button view="flat" aria-label={t('Alerts: {n}', {n: alerts.length})} className="top__alerts">
        <Icon data={Bell} size={18} />
        {alerts.length > 0 && <span className="badge">{alerts.length}</span>}
      </Button>
    </Popover>
  );
}

/** Reader shows who the server takes the reader for. */
function Reader() {
  const {t} = useTexts();
  const user = useUser();
  if (!user) return null;
  const withToken = token.get() !== '';
  return (
    <Popover
      hasArrow
      placement="bottom-end"
      content={
        <div className="popover stack">
          <p>{t('Signed in as {user}', {user})}</p>
          {withToken || user === 'guest' ? (
            <Button
              onClick={() => {
                token.set('');
                signedOut.set(true);
              }}
            >
              {withToken ? t('Sign out') : t('Sign in')}
            </Button>
          ) : (
            <p className="muted">{t('This cluster has no tokens yet and trusts its machine: everybody there is root.')}</p>
          )}
        </div>
      }
    >
      <Button view="flat" aria-label={t('Signed in as {user}', {user})} className="top__user">
        <Icon data={Person} size={18} />
        <span className="top__hint">{user}</span>
      </Button>
    </Popover>
  );
}

const themes: {value: ThemeChoice; title: Key; icon: typeof Sun}[] = [
  {value: 'light', title: 'Light', icon: Sun},
  {value: 'dark', title: 'Dark', icon: Moon},
  {value: 'system', title: 'System', icon: Display},
];

function Choices() {
  const {t} = useTexts();
  const chosen = useSignal(theme);
  const language = useSignal(locale);
  const icon = themes.find((item) => item.value === chosen)!.icon;
  return (
    <>
      <DropdownMenu
        renderSwitcher={(props) => (
          <Button {...props} view="flat" aria-label={t('Theme')}>
            <Icon data={icon} size={18} />
          </Button>
        )}
        items={themes.map((item) => ({
          text: t(item.title), iconStart: <Icon data={item.icon} size={16} />, selected: item.value === chosen, action: () => theme.set(item.value),
        }))}
      />
      <DropdownMenu
        renderSwitcher={(props) => (
          <Button {...props} view="flat" aria-label={t('Language')}>
            <Icon data={Globe} size={18} />
          </Button>
        )}
        items={[
          {text: 'English', selected: language === 'en', action: () => locale.set('en')},
          {text: 'Русский', selected: language === 'ru', action: () => locale.set('ru')},
        ]}
      />
      <Reader />
      <Popover
        hasArrow
        placement="bottom-end"
        content={
          <div className="popover">
            <p>
              <kbd>/</kbd> {t('search everything')}
            </p>
            <p>
              <kbd>Esc</kbd> {t('close')}
            </p>
            <p>{t('In tables: arrow keys move, Enter opens, left and right collapse and expand.')}</p>
          </div>
        }
      >
        <Button view="flat" aria-label={t('Keys')} className="top__keys">
          <Icon data={CircleQuestion} size={18} />
        </Button>
      </Popover>
    </>
  );
}
