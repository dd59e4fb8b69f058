package history

import "slices"

// ownState is what the transaction being examined knows of one key. It is valid if stamp is the
// transaction's number.
type ownState struct {
	wrote int32 // stamp of the transaction that wrote the key last
	value string
	// base: it replaced the list, so that nothing external can show before list.
	base bool
	list []string

	seen    int32 // stamp of the transaction that read the key externally last
	seenVal string
	scanned int32 // stamp of the range read that showed the key last
}

type readCollector struct {
	*index
	own   []ownState
	scans int32
}

// collectReads finds the version behind every external read of effective transactions.
func (x *index) collectReads() *Violation {
	c := &readCollector{index: x, own: make([]ownState, len(x.keys))}
	for i := range x.h.Txns {
		if !x.effective[i] {
			continue
		}
		for j := range x.h.Txns[i].Ops {
			if v := c.op(int32(i), &x.h.Txns[i].Ops[j]); v != nil {
				return v
			}
		}
	}
	return x.checkLists()
}

func (c *readCollector) op(t int32, o *Op) *Violation {
	stamp := t + 1
	if o.Kind == OpScan {
		return c.scan(t, o)
	}
	k := c.keyID[o.Key]
	s := &c.own[k]
	mine := s.wrote == stamp
	switch o.Kind {
	case OpRead:
		return c.read(t, k, o.Value, false)
	case OpReadList:
		return c.readList(t, k, o.List)
	case OpAppend:
		if !mine {
			s.base, s.list = false, nil
		}
		s.list = append(s.list, o.Value)
	case OpWrite:
		s.base, s.list = true, []string{o.Value}
	case OpDelete:
		s.base, s.list = true, nil
	}
	s.wrote, s.value = stamp, o.Value
	if o.Kind == OpDelete {
		s.value = ""
	}
	return nil
}

func (c *readCollector) read(t, k int32, value string, scan bool) *Violation {
	stamp := t + 1
	s := &c.own[k]
	if s.wrote == stamp {
		if s.value != value {
			return complain(c.h, KindInternal, []int32{t}, "%s read %s=%s after it had itself left %s there",
				c.txnName(t), c.keys[k].name, orAbsent(value), orAbsent(s.value))
		}
		return nil
	}
	if s.seen == stamp {
		if s.seenVal != value {
			return complain(c.h, KindNonRepeatable, []int32{t, c.writes[valueID{k, value}].txn}, "%s read %s=%s and later %s=%s",
				c.txnName(t), c.keys[k].name, orAbsent(s.seenVal), c.keys[k].name, orAbsent(value))
		}
		return nil
	}
	s.seen, s.seenVal = stamp, value
	ver := none
	if value != "" {
		ref, v := c.checkSeen(t, k, value)
		if v != nil {
			return v
		}
		ver = ref.ver
	}
	c.reads = append(c.reads, access{txn: t, key: k, ver: ver, scan: scan})
	return nil
}

// checkSeen reports whether value, seen in key by t (none: in the final state), is a version.
func (x *index) checkSeen(t, key int32, value string) (writeRef, *Violation) {
	h, name := x.h, x.keys[key].name
	who := "the final state"
	if t != none {
		who = x.txnName(t)
	}
	ref, ok := x.writes[valueID{key, value}]
	switch {
	case !ok:
		return ref, complain(h, KindGarbageRead, []int32{t}, "%s shows %s=%s, which nobody wrote", who, name, value)
	case ref.txn == none:
		return ref, nil
	case t != none && ref.txn == t:
		return ref, complain(h, KindInternal, []int32{t}, "%s read %s=%s, its own write, before it wrote it", who, name, value)
	case h.Txns[ref.txn].Outcome == Aborted:
		return ref, complain(h, KindDirtyRead, []int32{t, ref.txn}, "%s shows %s=%s, written by %s, which aborted (G1a)",
			who, name, value, x.txnName(ref.txn))
	case !ref.final:
		return ref, complain(h, KindIntermediate, []int32{t, ref.txn},
			"%s shows %s=%s, which %s itself replaced before it committed (G1b)",
			who, name, value, x.txnName(ref.txn))
	}
	return ref, nil
}

func (c *readCollector) scan(t int32, o *Op) *Violation {
	c.scans++
	for _, r := range o.Rows {
		k := c.keyID[r.Key]
		if r.Key < o.Key || o.End != "" && r.Key >= o.End {
			return complain(c.h, KindGarbageRead, []int32{t}, "%s scanned [%s,%s) and was shown %s", c.txnName(t),
				o.Key, o.End, r.Key)
		}
		if c.own[k].scanned == c.scans {
			return complain(c.h, KindDuplicateWrite, []int32{t}, "%s was shown %s twice by one range read", c.txnName(t), r.Key)
		}
		c.own[k].scanned = c.scans
		if v := c.read(t, k, r.Value, true); v != nil {
			return v
		}
	}
	for _, k := range c.span(o.Key, o.End) {
		if c.own[k].scanned != c.scans {
			if v := c.read(t, k, "", true); v != nil {
				return v
			}
		}
	}
	return nil
}

func (c *readCollector) readList(t, k int32, list []string) *Violation {
	s := &c.own[k]
	outside := list
	if s.wrote == t+1 {
		n := len(list) - len(s.list)
		if n < 0 || s.base && n != 0 || !slices.Equal(list[n:], s.list) {
			return complain(c.h, KindInternal, []int32{t}, "%s read the list %s=%v, which does not end with its own elements %v",
				c.txnName(t), c.keys[k].name, list, s.list)
		}
		if s.base {
			return nil
		}
		outside = list[:n]
	}
	if v := c.checkElements(t, k, list, outside); v != nil {
		return v
	}
	if info := &c.keys[k]; len(outside) > len(info.longest) {
		info.longest, info.listBy = outside, t
	}
	value := ""
	if len(outside) > 0 {
		value = outside[len(outside)-1]
	}
	// A transaction's own later elements hide what it saw before, so the external part is read as
	// it was.
	wrote := s.wrote
	s.wrote = 0
	v := c.read(t, k, value, false)
	s.wrote = wrote
	return v
}

// checkElements checks that others wrote the elements of a list, and that none is there twice among
// the first 64.
func (c *readCollector) checkElements(t, k int32, list, outside []string) *Violation {
	for i, e := range outside {
		ref, ok := c.writes[valueID{k, e}]
		if !ok || ref.txn == t || ref.txn != none && c.h.Txns[ref.txn].Outcome == Aborted {
			_, v := c.checkSeen(t, k, e)
			return v
		}
		if i < 64 && slices.Contains(outside[:i], e) {
			return complain(c.h, KindDuplicateWrite, []int32{t, ref.txn}, "%s read %s=%v with %s twice", c.txnName(t),
				c.keys[k].name, list, e)
		}
	}
	return nil
}

// checkLists checks that all reads of one list are prefixes of the longest.
func (x *index) checkLists() *Violation {
	for i := range x.h.Txns {
		if !x.effective[i] {
			continue
		}
		for j := range x.h.Txns[i].Ops {
			o := &x.h.Txns[i].Ops[j]
			if o.Kind != OpReadList {
				continue
			}
			k := x.keyID[o.Key]
			longest := x.keys[k].longest
			for n, e := range o.List {
				if n >= len(longest) || longest[n] != e {
					if ref := x.writes[valueID{k, e}]; ref.txn == int32(i) {
						break // the rest is its own; readList compared that
					}
					return complain(x.h, KindListOrder, []int32{int32(i), x.keys[k].listBy},
						"%s read %s=%v, %s read %v: not a prefix",
						x.txnName(int32(i)), o.Key, o.List, x.txnName(x.keys[k].listBy), longest)
				}
			}
		}
	}
	return nil
}
