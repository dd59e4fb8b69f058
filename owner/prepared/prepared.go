// Package prepared makes and reads the records of transactions that XA has prepared
// (docs/protocol.md, XA).
package prepared

import (
	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/wire"
)

// recordBytes is about how many bytes of writes one record has.
const recordBytes = 1 << 20

// Records are what is logged in a group in which a transaction comes to stand, in place of the
// writes that it will make there: a record of its locks, and others of these writes. The record of
// its name, which is among the writes, is logged as it is.
func Records(g base.GroupID, id base.TxnID, locks *wire.Standing, writes []*wire.Write) ([]*wire.Write, error) {
	value, err := locks.MarshalVT()
	if err != nil {
		return nil, err
	}
	label := base.MakeLabel(g.Region(), 0, 0)
	if g == base.MetaGroup {
		label = 0
	}
	var names, records []*wire.Write
	add := func(value []byte) {
		records = append(records, &wire.Write{Kind: wire.WriteKind_INSERT, Key: base.PreparedKey(g, id, uint32(len(records))),
			Value: value, Home: uint32(g.Region()), Label: uint64(label)})
	}
	add(value)
	var part wire.PreparedWrites
	size := 0
	flush := func() error {
		value, err := part.MarshalVT()
		if len(part.Writes) > 0 {
			add(value)
		}
		part.Writes, size = nil, 0
		return err
	}
	for _, w := range writes {
		if base.Key(w.Key).Table() == base.PreparedTable {
			names = append(names, w)
			continue
		}
		// The policy shall not move the row later: that may take locks which are not held.
		w.Follow = false
		part.Writes = append(part.Writes, w)
		if size += w.SizeVT(); size >= recordBytes {
			if err := flush(); err != nil {
				return nil, err
			}
		}
	}
	if err := flush(); err != nil {
		return nil, err
	}
	return append(names, records...), nil
}

// Span is where the records of a transaction in a group lie.
func Span(g base.GroupID, id base.TxnID) base.Span {
	return base.Span{Start: base.PreparedKey(g, id, 0), End: base.PreparedKey(g, id, 1<<32-1)}
}

// End is what the end of a transaction writes because of one of its records: it goes, and if the
// transaction makes its writes, those of the record are made.
func End(record kv.Row, makes bool) ([]*wire.Write, error) {
	ws := []*wire.Write{{Kind: wire.WriteKind_DELETE, Key: record.Key}}
	g := record.Key.DefaultOwner()
	_, n, ok := base.PreparedBy(g, record.Key)
	if !ok {
		return nil, damaged(record.Key)
	}
	if n == 0 || !makes {
		return ws, nil
	}
	var part wire.PreparedWrites
	if err := part.UnmarshalVT(record.Value); err != nil {
		return nil, damaged(record.Key)
	}
	return append(ws, part.Writes...), nil
}

func damaged(k base.Key) error {
	return base.Errorf(base.CodeCorrupt, "record %v of a prepared transaction is damaged", k)
}

// Name is the write of the record of a name.
func Name(name []byte, record *wire.PreparedName) (*wire.Write, error) {
	value, err := record.MarshalVT()
	return &wire.Write{Kind: wire.WriteKind_INSERT, Key: base.PreparedName(name), Value: value}, err
}

// ParseName reads the record of a name.
func ParseName(row kv.Row) (*wire.PreparedName, error) {
	var p wire.PreparedName
	if err := p.UnmarshalVT(row.Value); err != nil || len(p.Id) != len(base.TxnID{}) {
		return nil, damaged(row.Key)
	}
	return &p, nil
}

// Parse is the transaction that the record of a name tells of.
func Parse(row kv.Row) (kv.Prepared, error) {
	p, err := ParseName(row)
	if err != nil {
		return kv.Prepared{}, err
	}
	return kv.Prepared{Name: row.Key[len(base.PreparedName(nil)):], At: base.Timestamp(p.At), User: p.User,
		Gateway: base.NodeID(p.Gateway)}, nil
}
