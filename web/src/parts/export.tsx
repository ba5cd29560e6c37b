import {Button, DropdownMenu, Icon} from '@gravity-ui/uikit';
import {ArrowDownToLine} from '@gravity-ui/icons';

import {csv} from '../model/format';
import {useTexts} from '../text/i18n';
import type {Column} from './grid';

/** saveAs lets the reader save a text. */
export function saveAs(name: string, media: string, text: string) {
  saveBlob(name, new Blob([text], {type: media}));
}

/** saveBlob lets the reader save a file. */
export function saveBlob(name: string, content: Blob) {
  const url = URL.createObjectURL(content);
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/** Export saves the rows of a table as CSV, or the data behind them as JSON. */
export function Export<Row>({name, columns, rows}: {name: string; columns: Column<Row>[]; rows: Row[]}) {
  const {t} = useTexts();
  const written = columns.filter((c) => c.value);
  return (
    <DropdownMenu
      renderSwitcher={(props) => (
        <Button {...props} view="outlined" aria-label={t('Export')}>
          <Icon data={ArrowDownToLine} size={16} />
        </Button>
      )}
      items={[
        {
          text: 'CSV',
          action: () =>
            saveAs(`${name}.csv`, 'text/csv', csv(written.map((c) => c.key), rows.map((row) => written.map((c) => c.value!(row))))),
        },
        {text: 'JSON', action: () => saveAs(`${name}.json`, 'application/json', JSON.stringify(rows, null, 2))},
      ]}
    />
  );
}
