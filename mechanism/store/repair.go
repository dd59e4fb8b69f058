package store

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/godwitdb/godwit/base"
)

// A damaged table is repaired shard by shard, in three steps. First the node writes down what it
// has promised in the groups of the shard: term, vote, and how much of the log it has acknowledged.
// All of it is still in memory. Then everything of the shard is removed from the tables, unread.
// Then another replica's copy takes its place; its groups have applied at least what this node has
// acknowledged. No group of the shard may be open here meanwhile.
//
//	damaged --Quarantine--> empty, with a record of what was promised --Import.Restore--> whole

// localRepair + shard is the record of a shard that has to be fetched.
const localRepair = "repair/"

// kept is what a node has promised in a group.
type kept struct {
	// Known says that the rest is; else the group's log or its records could not be read, or the
	// group was suspect already.
	Known       bool   `json:"known,omitempty"`
	Term        uint64 `json:"term,omitempty"`
	Vote        uint64 `json:"vote,omitempty"`
	Last        uint64 `json:"last,omitempty"` // the end of its log
	Incarnation uint32 `json:"incarnation,omitempty"`
}

// repairRecord is the record of a shard that has to be fetched.
type repairRecord struct {
	Why    string                `json:"why"`
	Groups map[base.GroupID]kept `json:"groups"`
}

// Wanted is what has to be fetched of a shard.
type Wanted struct {
	Shard base.ShardID
	Why   string
	// Least is how much the source has to have applied, of each group that was here.
	Least map[base.GroupID]uint64
}

// Wanted are the shards that have to be fetched from other nodes, in order.
func (s *Store) Wanted() (out []Wanted) {
	for id, r := range s.repairs() {
		w := Wanted{Shard: id, Why: r.Why, Least: map[base.GroupID]uint64{}}
		for g, k := range r.Groups {
			w.Least[g] = max(1, s.stillKept(g, k).Last)
		}
		out = append(out, w)
	}
	slices.SortFunc(out, func(a, b Wanted) int { return int(a.Shard) - int(b.Shard) })
	return out
}

// stillKept is what a node has promised in the incarnation that the group has now.
func (s *Store) stillKept(g base.GroupID, k kept) kept {
	if inc, err := s.Incarnation(g); err == nil && inc != k.Incarnation {
		return kept{Known: true}
	}
	return k
}

// Fetching reports whether a shard has to be fetched, and its groups may not be opened.
func (s *Store) Fetching(id base.ShardID) bool {
	_, ok := s.mirror.get(repairName(id))
	return ok
}

func repairName(id base.ShardID) string { return localRepair + strconv.Itoa(int(id)) }

// repairs are the records of shards that have to be fetched.
func (s *Store) repairs() map[base.ShardID]repairRecord {
	out := map[base.ShardID]repairRecord{}
	s.mirror.each(localRepair, func(name string, val []byte) {
		id, err := strconv.ParseUint(name, 10, 16)
		var r repairRecord
		if err == nil && json.Unmarshal(val, &r) == nil {
			out[base.ShardID(id)] = r
		}
	})
	return out
}

// Quarantine takes what a survey found out of the tables. Shards that groups replicate leave as a
// whole and have to be fetched (see Wanted); nothing of them may be open. Of the shard of epochs
// only what is damaged goes; its rows are to be copied anew then, and must not be read before.
// Records of the node itself are written again from memory.
func (s *Store) Quarantine(v *Survey) error {
	xs := slices.Clone(v.extents)
	why := "damaged: " + strings.Join(v.Files, ", ")
	for _, id := range v.Shards {
		if err := s.promise(id, why); err != nil {
			return err
		}
	}
	gone := s.repairs() // also those of before a crash
	for id := range gone {
		s.shards.get(id).lost.Store(true)
	}
	delete(gone, base.EpochShard)
	for id := range gone {
		xs = append(xs, shardExtents(id)...)
	}
	if err := s.excise(joined(xs), v.Local); err != nil {
		return err
	}
	for id := range gone {
		s.forgetShard(id)
	}
	s.idle.expire()
	s.rows.purge()
	s.corruption.Store(nil)
	return nil
}

// promise writes down what this node has promised in the groups of a shard.
func (s *Store) promise(id base.ShardID, why string) error {
	if s.Fetching(id) {
		return nil // then what is in memory is younger than the promise
	}
	r := repairRecord{Why: why, Groups: map[base.GroupID]kept{}}
	_, err := s.fs().Stat(s.fs().PathJoin(s.opts.Dir, suspectFile))
	torn := err == nil
	for _, g := range s.knownGroups() { // none of the shard of epochs: multimaster has its promises
		if g.Shard() != id {
			continue
		}
		inc, err := s.Incarnation(g)
		if err != nil {
			return err
		}
		k := kept{Incarnation: inc}
		if l, err := s.Log(g); err == nil {
			hs, _, _ := l.InitialState()
			if last, err := l.LastIndex(); err == nil {
				why, err := s.Suspicion(g)
				k.Known = err == nil && why == "" && !torn
				k.Term, k.Vote, k.Last = hs.GetTerm(), hs.GetVote(), last
			}
		}
		r.Groups[g] = k
	}
	val, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return s.setLocal(repairName(id), val, true)
}

// excise takes extents out of the tables without reading them.
func (s *Store) excise(xs []extent, local bool) error {
	if err := s.db.Flush(); err != nil {
		return s.wrap(err)
	}
	if local {
		s.mirror.mu.Lock()
		defer s.mirror.mu.Unlock()
	}
	for _, x := range xs {
		if err := s.db.Excise(context.Background(), pebble.KeyRange{Start: x.lo, End: x.hi}); err != nil {
			return s.wrap(err)
		}
	}
	if !local {
		return nil
	}
	b := s.db.NewBatch()
	defer b.Close()
	for name, val := range s.mirror.m {
		if err := b.Set(localKey(name), val, nil); err != nil {
			return s.wrap(err)
		}
	}
	return s.wrap(b.Commit(pebble.Sync))
}

// whole fails if rows of a key's shard are missing in the reader's view.
func (r *Reader) whole(key base.Key) error {
	sh := r.s.shards.get(key.Shard())
	if err := sh.whole(); err != nil {
		return err
	}
	if r.view != nil && r.gen < sh.backAt.Load() {
		return base.Errorf(base.CodeUnavailable, "the rows of %s here were damaged, and have just been replaced; try again", sh)
	}
	return nil
}

// keepPromises adds to a batch that clears a shard, which had to be fetched, what this node has
// voted in its groups.
func (s *Store) keepPromises(b *Batch, id base.ShardID) error {
	for g, k := range s.repairs()[id].Groups {
		v, err := proto.Marshal(&pb.HardState{Term: new(k.Term), Vote: new(k.Vote), Commit: new(uint64)})
		if err != nil {
			return err
		}
		b.set(stateKey(g, stateHard), v)
	}
	b.del(localKey(repairName(id)))
	return nil
}

// forgetShard drops what memory knows of a shard whose data are gone.
func (s *Store) forgetShard(id base.ShardID) {
	sh := s.shards.get(id)
	sh.reset()
	sh.lost.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	for g := range s.logs {
		if g.Shard() == id {
			delete(s.logs, g)
		}
	}
}

// GroupAt is where a group's copy ends.
type GroupAt struct {
	Group       base.GroupID
	Index, Term uint64
	Conf        *pb.ConfState
}

// Restore ends the repair of a shard: it is Finish for an import of a node that has all groups at
// least as far as Wanted says. Groups whose promises are not known are suspect afterwards
// (RECOVER-1).
func (i *Import) Restore(at []GroupAt) error {
	r, ok := i.s.repairs()[i.sh.id]
	if !ok {
		_ = i.Abort()
		return base.Errorf(base.CodeInvalid, "shard %d does not have to be fetched", i.sh.id)
	}
	found := map[base.GroupID]GroupAt{}
	var adopt []base.GroupID
	for _, a := range at {
		found[a.Group] = a
		adopt = append(adopt, a.Group)
	}
	for g, k := range r.Groups {
		if least := max(1, i.s.stillKept(g, k).Last); found[g].Index < least {
			_ = i.Abort()
			return base.Errorf(base.CodeUnavailable, "shard %d: the copy has group %s up to %d, and %d is needed",
				i.sh.id, g, found[g].Index, least)
		}
	}
	err := i.Finish(adopt, func(b *Batch) error {
		for _, a := range at {
			if err := i.s.restoreLog(b, a, r); err != nil {
				return err
			}
		}
		b.del(localKey(repairName(i.sh.id)))
		return nil
	})
	if err == nil {
		i.sh.backAt.Store(i.s.idle.gen.Load())
		i.sh.lost.Store(false)
	}
	return err
}

// restoreLog makes a group's log end where its copy does, with the promises that were kept.
func (s *Store) restoreLog(b *Batch, a GroupAt, r repairRecord) error {
	l, err := s.Log(a.Group)
	if err != nil {
		return err
	}
	if err := l.ResetToSnapshot(b, a.Index, a.Term, a.Conf); err != nil {
		return err
	}
	k, was := r.Groups[a.Group]
	k = s.stillKept(a.Group, k)
	hs := &pb.HardState{Term: new(max(k.Term, a.Term)), Commit: new(a.Index)}
	if k.Term >= a.Term {
		hs.Vote = new(k.Vote)
	}
	if was && !k.Known {
		b.SetSuspicion(a.Group, r.Why)
	}
	return l.Append(b, hs, nil)
}

// mendAtOpen looks whether what groups keep can be read. If not, the groups must not be opened with
// what is left.
func (s *Store) mendAtOpen() error {
	bad := len(s.repairs()) > 0
	for _, area := range []byte{areaState, areaLog} {
		lo, hi := areaSpan([]byte{area})
		err := s.scan(lo, hi, func([]byte, []byte) error { return nil })
		if err != nil && base.CodeOf(err) != base.CodeCorrupt {
			return err
		}
		bad = bad || err != nil
	}
	if !bad {
		return nil
	}
	v, err := s.Survey()
	if err != nil {
		return err
	}
	if v.Epochs { // its promises cannot be kept, and no memory has them
		return corruptf("store %s: %s: what this node has promised of MULTI MASTER tables is lost", s.opts.Dir,
			strings.Join(v.Files, ", "))
	}
	s.opts.Logger.Error("store: damaged files; what they held is fetched from other nodes", "files", v.Files, "shards", v.Shards)
	return s.Quarantine(v)
}
