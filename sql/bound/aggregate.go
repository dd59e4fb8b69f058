package bound

import (
	"reflect"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression/function/aggregation"
	"github.com/dolthub/go-mysql-server/sql/plan"
)

// ahead is how many rows the engine reads ahead of its groups. It is less than the engine's channel
// holds: what reads never waits there, where it could not be interrupted.
const ahead = 500

// groupBy builds groups. Rows are not kept, but for some aggregates.
func (f *frame) groupBy(ctx *sql.Context, n *plan.GroupBy, row sql.Row) (sql.RowIter, error) {
	nn := *n
	nn.SelectDeps = make([]sql.Expression, len(n.SelectDeps))
	grouped := len(n.GroupByExprs) > 0
	for i, e := range n.SelectDeps {
		agg, ok := e.(sql.Aggregation)
		if _, one := e.(*aggregation.AnyValue); !grouped && (!ok || one) {
			nn.SelectDeps[i] = e // the engine looks for these
			continue
		}
		if !ok {
			agg = aggregation.NewFirst(e)
		}
		var err error
		if agg, err = within(ctx, agg); err != nil {
			return nil, err
		}
		if c, ok := agg.(*aggregation.GroupConcat); ok { // it sorts
			if agg, err = probedFunction[sql.Aggregation](ctx, c); err != nil {
				return nil, err
			}
		}
		nn.SelectDeps[i] = &aggregate{Aggregation: agg, f: f, first: grouped && i == 0}
	}
	if grouped && len(nn.SelectDeps) > 0 {
		f.turns = make(chan struct{}, ahead)
		nn.GroupByExprs = make([]sql.Expression, len(n.GroupByExprs))
		for i, e := range n.GroupByExprs {
			nn.GroupByExprs[i] = digested(ctx, e)
		}
	}
	f.node, f.below = &nn, []below{{n: n.Child}}
	return f.build(ctx, row, 0)
}

// aggregate is an aggregate whose buffers are counted.
type aggregate struct {
	sql.Aggregation
	f *frame
	// first: it lets the next row in.
	first bool
}

// NewBuffer implements sql.Aggregation. What is too much is an error of the iterator that the rows
// come from: the engine would wait for it for ever.
func (a *aggregate) NewBuffer(ctx *sql.Context) (sql.AggregationBuffer, error) {
	b, err := a.Aggregation.NewBuffer(ctx)
	if err != nil {
		return nil, err
	}
	_ = a.f.take(bufferBytes)
	return &buffer{AggregationBuffer: b, a: a, kept: keptOf(b)}, nil
}

type buffer struct {
	sql.AggregationBuffer
	a    *aggregate
	kept reflect.Value // what grows with the rows
}

// keptOf is the list, or the set, in which a buffer of the engine keeps rows or values; the zero
// Value if it keeps none.
func keptOf(b sql.AggregationBuffer) reflect.Value {
	v := reflect.ValueOf(b)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return reflect.Value{}
	}
	for _, name := range []string{"rows", "vals", "seen"} {
		switch k := v.Elem().FieldByName(name); k.Kind() {
		case reflect.Slice, reflect.Map:
			return k
		}
	}
	return reflect.Value{}
}

// Update implements sql.AggregationBuffer.
func (b *buffer) Update(ctx *sql.Context, row sql.Row) error {
	if b.a.first {
		select {
		case <-b.a.f.turns:
		default:
		}
	}
	if b.a.f.err() != nil {
		return nil // see NewBuffer
	}
	if !b.kept.IsValid() {
		return b.AggregationBuffer.Update(ctx, row)
	}
	was := b.kept.Len()
	err := b.AggregationBuffer.Update(ctx, row)
	if err == nil && b.kept.Len() > was {
		n := int64(entryBytes)
		if b.kept.Kind() == reflect.Slice || b.kept.Type().Elem().Kind() == reflect.Interface {
			n += sizeOf(row)
		}
		_ = b.a.f.take(n)
	}
	return err
}

// Eval implements sql.AggregationBuffer.
func (b *buffer) Eval(ctx *sql.Context) (any, error) {
	v, err := b.AggregationBuffer.Eval(ctx)
	if name := jsonAggregate(b.a.Aggregation); err == nil && name != "" {
		return packet(ctx, name, v)
	}
	return v, err
}
