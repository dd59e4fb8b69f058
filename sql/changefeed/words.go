package changefeed

import (
	"context"
	"errors"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/changefeed/avro"
	"github.com/godwitdb/godwit/sql/changefeed/event"
	"github.com/godwitdb/godwit/sql/changefeed/sink"
	"github.com/godwitdb/godwit/sql/schema"
)

// words makes messages of changes.
type words struct {
	f event.Format
	// registry numbers the schemas of Avro; nil: messages are in files, which have their schemas.
	registry *sink.Registry

	// of are the coders of tables as they are defined now, by topics.
	of map[string]map[base.TableID]*coded
}

type coded struct {
	t    *schema.Table
	head string // of CSV
	c    *avro.Coder
}

// coder is that of a table as it is defined now.
func (w *words) coder(topic string, t *schema.Table) (*coded, error) {
	x := w.of[topic][t.Desc.ID]
	if x != nil && x.t == t {
		return x, nil
	}
	x = &coded{t: t}
	var err error
	switch w.f.Encoding {
	case event.Avro:
		x.c, err = avro.NewCoder(t, w.f)
	case event.CSV:
		x.head = string(w.f.CSVHeader(t))
	}
	if w.of == nil {
		w.of = map[string]map[base.TableID]*coded{}
	}
	if w.of[topic] == nil {
		w.of[topic] = map[base.TableID]*coded{}
	}
	w.of[topic][t.Desc.ID] = x
	return x, err
}

// message words a change. A registry that does not answer is an error that trying again mends;
// others are a *wordError.
func (w *words) message(ctx context.Context, c *event.Change) (sink.Message, error) {
	m := sink.Message{Topic: c.Topic}
	var err error
	if w.f.Encoding == "" {
		if m.Key, m.Value, err = w.f.Encode(ctx, c); err != nil {
			err = &wordError{err}
		}
		return m, err
	}
	x, err := w.coder(c.Topic, c.Table)
	if err != nil {
		return m, &wordError{err}
	}
	if w.f.Encoding == event.CSV {
		if m.Key, m.Value, err = w.f.EncodeCSV(ctx, c); err != nil {
			err = &wordError{err}
		}
		m.Head = x.head
		return m, err
	}
	if m.Key, m.Value, err = x.c.Encode(ctx, c); err != nil {
		return m, &wordError{err}
	}
	if w.registry == nil {
		m.Head = x.c.Value
		return m, nil
	}
	if m.Key, err = w.framed(ctx, c.Topic+"-key", x.c.Key, m.Key); err == nil {
		m.Value, err = w.framed(ctx, c.Topic+"-value", x.c.Value, m.Value)
	}
	return m, err
}

func (w *words) framed(ctx context.Context, subject, text string, b []byte) ([]byte, error) {
	id, err := w.registry.ID(ctx, subject, text)
	if r := new(sink.RefusedError); errors.As(err, &r) {
		return nil, &wordError{err}
	}
	return avro.Framed(id, b), err
}

// mark words a mark. In Avro it has the schema of a table of its topic, or one of its own as long
// as nothing is known of these.
func (w *words) mark(ctx context.Context, ts base.Timestamp, topics []string) (m sink.Mark, err error) {
	m = sink.Mark{At: uint64(ts), Value: event.Resolved(ts)}
	if w.registry == nil {
		return m, nil
	}
	m.Of = map[string][]byte{}
	for _, topic := range topics {
		text, b := avro.MarkSchema, avro.Mark(ts)
		for _, x := range w.of[topic] {
			text, b = x.c.Value, x.c.Resolved(ts)
			break
		}
		if m.Of[topic], err = w.framed(ctx, topic+"-value", text, b); err != nil {
			return m, err
		}
	}
	return m, nil
}
