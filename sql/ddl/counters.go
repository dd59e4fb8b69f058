package ddl

import (
	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/table"
)

// autoIncrementSetter sets the counter of a table.
type autoIncrementSetter struct {
	sql.AutoIncrementSetter
	t *Table
}

// AutoIncrementSetter implements sql.AutoIncrementTable.
func (t *Table) AutoIncrementSetter(ctx *sql.Context) sql.AutoIncrementSetter {
	return &autoIncrementSetter{t.Table.AutoIncrementSetter(ctx), t}
}

// SetAutoIncrementValue implements sql.AutoIncrementSetter: the counter starts
// again at v, or above the largest value in the table; blocks leased before are void.
func (a *autoIncrementSetter) SetAutoIncrementValue(ctx *sql.Context, v uint64) error {
	t := a.t
	largest, err := t.LargestAutoInc(ctx)
	if err != nil {
		return err
	}
	m, d, err := t.change(ctx)
	if err != nil {
		return err
	}
	if d.Locality.Kind == schema.MultiMaster {
		// Other regions may be inserting values that are not here yet: it only goes up.
		rows, err := m.kv.Get(m.s.KVContext(ctx), []base.Key{table.CounterKey(d.AutoKey)}, kv.LockExclusive)
		if err != nil {
			return m.txn.Fail(err)
		}
		now, err := table.CounterValue(rows[0].Value)
		if err != nil {
			return schema.ClientError(err)
		}
		v = max(v, now)
	}
	m.setCounter(d, max(v, largest+1))
	return t.done(m, d)
}

// startCounter begins to count above the values of a column that becomes AUTO_INCREMENT.
func (t *Table) startCounter(ctx *sql.Context, m *mutation, d *schema.TableDesc, col int) error {
	largest, err := t.Largest(ctx, col)
	if err != nil {
		return err
	}
	m.setCounter(d, largest+1)
	return nil
}

// setCounter has the counter of a table go on with v; blocks leased before are void.
func (m *mutation) setCounter(d *schema.TableDesc, v uint64) {
	if m.temporary != nil {
		m.s.SetTemporary(m.temporary, v)
		return
	}
	d.AutoEpoch++
	m.put(table.CounterKey(d.AutoKey), base.AppendUint64(nil, v))
}
