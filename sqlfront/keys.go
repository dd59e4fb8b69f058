package sqlfront

import (
	"context"
	"encoding/binary"
	"math/big"
	"time"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/shopspring/decimal"

	"github.com/godwitdb/godwit/base"
)

// appendKey encodes a value of the column in the order of its type and
// collation. length is the index prefix length, 0 for all.
func (c *column) appendKey(ctx context.Context, k []byte, v any, length int64) ([]byte, error) {
	if v == nil {
		return base.AppendNull(k), nil
	}
	switch c.kind {
	case kindInt:
		n, ok := toInt64(v)
		if !ok {
			return nil, badValue(c, v)
		}
		return base.AppendInt64(k, n), nil
	case kindUint:
		n, ok := toUint64(v)
		if !ok {
			return nil, badValue(c, v)
		}
		return base.AppendUint64(k, n), nil
	case kindFloat:
		switch f := v.(type) {
		case float32:
			return base.AppendFloat64(k, float64(f)), nil
		case float64:
			return base.AppendFloat64(k, f), nil
		}
		return nil, badValue(c, v)
	case kindDecimal:
		d, ok := v.(decimal.Decimal)
		if !ok {
			return nil, badValue(c, v)
		}
		return c.appendDecimalKey(k, d), nil
	case kindDatetime:
		t, ok := v.(time.Time)
		if !ok {
			return nil, badValue(c, v)
		}
		return base.AppendInt64(k, t.UnixMicro()), nil
	case kindTimespan:
		t, ok := v.(types.Timespan)
		if !ok {
			return nil, badValue(c, v)
		}
		return base.AppendInt64(k, int64(t)), nil
	}
	raw, err := c.bytesOf(ctx, v)
	if err != nil {
		return nil, err
	}
	if c.kind != kindString || c.bin {
		return base.AppendBytes(k, cutPrefix(raw, length, c.kind == kindString)), nil
	}
	return base.AppendBytes(k, c.weights(cutPrefix(raw, length, true))), nil
}

// cutPrefix takes the first n characters (or bytes); n = 0 takes all.
func cutPrefix(b []byte, n int64, chars bool) []byte {
	if n == 0 {
		return b
	}
	if !chars {
		return b[:min(int64(len(b)), n)]
	}
	i := 0
	for ; n > 0 && i < len(b); n-- {
		_, w := utf8.DecodeRune(b[i:])
		i += w
	}
	return b[:i]
}

// weights are the collation weights of the characters, in an encoding that
// orders as they do: 1 byte below 0x80, 2 below 0x4000, else 5.
func (c *column) weights(s []byte) []byte {
	w := c.coll.Sorter()
	out := make([]byte, 0, 2*len(s))
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRune(s[i:])
		i += n
		switch x := uint32(w(r)); {
		case x < 0x80:
			out = append(out, byte(x))
		case x < 0x4000:
			out = append(out, 0x80|byte(x>>8), byte(x))
		default:
			out = binary.BigEndian.AppendUint32(append(out, 0xc0), x)
		}
	}
	return out
}

// appendDecimalKey encodes coefficient + 10^65-ish offset at the column's scale in fixed width.
func (c *column) appendDecimalKey(k []byte, d decimal.Decimal) []byte {
	n := d.Shift(c.scale).Round(0).BigInt()
	offset := new(big.Int).Lsh(big.NewInt(1), uint(8*c.width-1))
	n.Add(n, offset)
	b := make([]byte, c.width)
	if n.Sign() < 0 {
		n.SetInt64(0)
	}
	if n.BitLen() > 8*c.width {
		for i := range b {
			b[i] = 0xff
		}
	} else {
		n.FillBytes(b)
	}
	return base.AppendBytes(k, b)
}

// shardOf hashes an encoded distribution value to a data shard.
func (t *table) shardOf(enc []byte) base.ShardID {
	switch t.desc.Locality.Kind {
	case global:
		return base.MetaShard
	case multi:
		return base.EpochShard
	}
	return base.ShardID(t.desc.firstShard() + 1 + int(xxhash.Sum64(enc)%uint64(t.desc.Shards)))
}

// shards are all shards that hold rows of the table.
func (t *table) shards() []base.ShardID {
	switch t.desc.Locality.Kind {
	case global:
		return []base.ShardID{base.MetaShard}
	case multi:
		return []base.ShardID{base.EpochShard}
	}
	out := make([]base.ShardID, t.desc.Shards)
	for i := range out {
		out[i] = base.ShardID(t.desc.firstShard() + i + 1)
	}
	return out
}

// rowRef is where a row is: its shard and the primary-key part of its key.
type rowRef struct {
	shard base.ShardID
	pk    []byte
}

func (t *table) rowKey(r rowRef) base.Key {
	return append(base.IndexPrefix(r.shard, t.desc.ID, 0, 0), r.pk...)
}

// refOf computes where a row with a primary key is.
func (t *table) refOf(ctx context.Context, row sql.Row) (rowRef, error) {
	var r rowRef
	for i, p := range t.pk {
		var err error
		if r.pk, err = t.cols[p].appendKey(ctx, r.pk, row[p], 0); err != nil {
			return r, err
		}
		if i == 0 {
			r.shard = t.shardOf(r.pk)
		}
	}
	return r, nil
}

// hiddenRef is the row of a table without primary key that has a hidden id.
func (t *table) hiddenRef(id uint64) rowRef {
	pk := base.AppendUint64(nil, id)
	return rowRef{t.shardOf(pk), pk}
}

// refOfKey splits the key of a row.
func refOfKey(k base.Key) rowRef { return rowRef{k.Shard(), k[base.IndexPrefixLen:]} }

// Index entry values: 0x00 and a uvarint say that the primary-key part is the tail
// of the key after so many bytes of index columns, in the shard of the entry;
// 0x01, shard and bytes carry it in the value.
const (
	entryTail  byte = 0
	entryCarry byte = 1
)

// indexEntry makes the entry of a row in an index. home is the row's home
// and matters for by-home indexes only.
func (t *table) indexEntry(ctx context.Context, x *index, row sql.Row, r rowRef, home base.RegionID) (key base.Key, value []byte, err error) {
	var cols []byte
	null := false
	var first []byte
	for i, c := range x.cols {
		null = null || row[c.pos] == nil
		if cols, err = t.cols[c.pos].appendKey(ctx, cols, row[c.pos], c.length); err != nil {
			return nil, nil, err
		}
		if i == 0 {
			first = cols[:len(cols):len(cols)]
		}
	}
	shard := r.shard
	if x.desc.Class == classUnique {
		shard = t.shardOf(first)
	}
	key = append(base.IndexPrefix(shard, t.desc.ID, x.desc.key(), home), cols...)
	if x.desc.unique() && !null {
		value = binary.BigEndian.AppendUint16([]byte{entryCarry}, uint16(r.shard))
		return key, append(value, r.pk...), nil
	}
	key = append(key, r.pk...)
	if shard != r.shard {
		value = binary.BigEndian.AppendUint16([]byte{entryCarry}, uint16(r.shard))
		return key, append(value, r.pk...), nil
	}
	return key, binary.AppendUvarint([]byte{entryTail}, uint64(len(cols))), nil
}

// prefixLen is the length of the fixed part of the keys of an index.
func (x *index) prefixLen() int {
	if x != nil && x.desc.Class == classByHome {
		return base.IndexPrefixLen + 1
	}
	return base.IndexPrefixLen
}

// entryRef finds the row of an index entry.
func (x *index) entryRef(key base.Key, value []byte) (rowRef, error) {
	if len(value) > 1 {
		switch value[0] {
		case entryTail:
			n, k := binary.Uvarint(value[1:])
			if at := x.prefixLen() + int(n); k > 0 && at <= len(key) {
				return rowRef{key.Shard(), key[at:]}, nil
			}
		case entryCarry:
			if len(value) > 3 {
				return rowRef{base.ShardID(binary.BigEndian.Uint16(value[1:])), value[3:]}, nil
			}
		}
	}
	return rowRef{}, base.Errorf(base.CodeCorrupt, "entry %s of index %s cannot be decoded", key, x.desc.Name)
}
