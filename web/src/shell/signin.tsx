import {Alert, Button, Card, PasswordInput} from '@gravity-ui/uikit';
import {useState} from 'react';

import {call, reasons, signedOut, token} from '../api/client';
import {queryClient} from '../api/queries';
import {useTexts} from '../text/i18n';
import {Logo} from './logo';

/** SignIn asks for a token, which is kept until the tab is closed. */
export function SignIn() {
  const {t} = useTexts();
  const [secret, setSecret] = useState('');
  const [problem, setProblem] = useState<string[]>([]);
  const [busy, setBusy] = useState(false);
  const submit = async () => {
    setBusy(true);
    const before = token.get();
    token.set(secret.trim());
    try {
      await call('get_current_user');
      queryClient.clear();
      signedOut.set(false);
    } catch (error) {
      token.set(before);
      setProblem(reasons(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <main className="signin">
      <Card className="signin__card" type="container" view="outlined">
        <h1 className="signin__title">
          <Logo /> Weir
        </h1>
        <p>{t('This cluster requires a token. Paste yours; it is kept until you close this tab.')}</p>
        <form
          className="stack"
          onSubmit={(event) => {
            event.preventDefault();
            void submit();
          }}
        >
          <PasswordInput
            label={t('Token')}
            value={secret}
            onUpdate={setSecret}
            autoFocus
            autoComplete
            size="l"
            controlProps={{'aria-label': t('Token')}}
          />
          {problem.length > 0 && <Alert theme="danger" title={t('The token was refused')} message={problem.join(': ')} />}
          <Button type="submit" view="action" size="l" width="max" loading={busy} disabled={secret.trim() === ''}>
            {t('Sign in')}
          </Button>
        </form>
        <p className="muted">
          {t('Create a token on the command line:')} <code>weir token create</code>
        </p>
      </Card>
    </main>
  );
}
