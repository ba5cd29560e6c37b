import {Button, Checkbox, Icon, Popover} from '@gravity-ui/uikit';
import {LayoutColumns3} from '@gravity-ui/icons';
import {useMemo} from 'react';

import {useSignal} from '../api/queries';
import {hiddenColumns, toggled} from '../shell/settings';
import {useTexts} from '../text/i18n';
import type {Column} from './grid';

/** useChosen returns the columns that the reader did not hide. The first column always stays. */
export function useChosen<Row>(table: string, columns: Column<Row>[]): Column<Row>[] {
  const hidden = useSignal(hiddenColumns);
  return useMemo(() => columns.filter((column, i) => i === 0 || !hidden.includes(`${table}/${column.key}`)), [table, columns, hidden]);
}

/** ColumnChoice lets the reader hide columns of a table. The browser remembers them. */
export function ColumnChoice<Row>({table, columns}: {table: string; columns: Column<Row>[]}) {
  const {t} = useTexts();
  const hidden = useSignal(hiddenColumns);
  const keyOf = (column: Column<Row>) => `${table}/${column.key}`;
  const choosable = columns.slice(1);
  const count = choosable.filter((column) => hidden.includes(keyOf(column))).length;
  return (
    <Popover
      placement="bottom-end"
      content={
        <div className="popover choice" role="group" aria-label={t('Columns')}>
          {choosable.map((column) => (
            <Checkbox
              key={column.key} checked={!hidden.includes(keyOf(column))} title={column.hint}
              onUpdate={() => hiddenColumns.set(toggled(hiddenColumns.get(), keyOf(column)))}
            >
              {column.title}
            </Checkbox>
          ))}
          <Button
            view="flat" disabled={count === 0}
            onClick={() => hiddenColumns.set(hiddenColumns.get().filter((key) => !key.startsWith(`${table}/`)))}
          >
            {t('Show all')}
          </Button>
        </div>
      }
    >
      <Button view="outlined" aria-label={count === 0 ? t('Columns') : t('Columns: {n} hidden', {n: count})}>
        <Icon data={LayoutColumns3} size={16} />
        {count > 0 && <span className="choice__count">−{count}</span>}
      </Button>
    </Popover>
  );
}
