package backup

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv/job"
	"github.com/godwitdb/godwit/sql/backup/archive"
	"github.com/godwitdb/godwit/sql/backup/residence"
	"github.com/godwitdb/godwit/sql/schema"
)

// Regions may have places of their own. The backup of such a region is a job of its own (its part),
// which a node of the region does: it reads the same moment, and writes the rows that belong to the
// region, and what lists their keys, to the region's place. Such a part is a backup with a chain of
// its own, but for definitions, counters and users, which the backup in the main place has. That
// one is complete once all parts are; it names their places, and the sums of their manifests.
//
// Rows belong to the region in which they are at home. Rows of a table with a placement never
// belong to a region outside of it, nor to the main place.

// partOrder is what makes an order that of a region's part.
type partOrder struct {
	Region string `json:"region"`
	// Main is the place of the backup that the part belongs to, and Of the job that takes it.
	Main string `json:"main"`
	Of   uint64 `json:"of"`
	// Live are the backups in the main place, and Oldest is the moment of the oldest: parts of
	// others are of no use any more.
	Live   []string       `json:"live,omitempty"`
	Oldest base.Timestamp `json:"oldest,omitempty"`
}

// partResult is what the job of a part leaves in its record.
type partResult struct {
	SHA256 []byte `json:"sha256"` // of the manifest's file
	Rows   int64  `json:"rows"`
	Files  int64  `json:"files"`
	Bytes  int64  `json:"bytes"`
	// Compared are the tables whose rows were all read: see [archive.Place].
	Compared []string `json:"compared,omitempty"`
}

// plainOrder has no methods.
type plainOrder order

// MarshalJSON implements [json.Marshaler]. Releases that know of no places of regions must not go
// on with such a job: they find no place in it.
func (o order) MarshalJSON() ([]byte, error) {
	if o.Main = ""; len(o.Places) > 0 {
		o.Main, o.Place = o.Place, ""
	}
	return json.Marshal(plainOrder(o))
}

// UnmarshalJSON implements [json.Unmarshaler].
func (o *order) UnmarshalJSON(b []byte) error {
	err := json.Unmarshal(b, (*plainOrder)(o))
	if o.Main != "" {
		o.Place, o.Main = o.Main, ""
	}
	return err
}

// localityParameter is how CockroachDB's statements say whose rows go to a place.
const localityParameter = "COCKROACH_LOCALITY"

// list takes the places of regions that CockroachDB's users write, up to the closing bracket:
//
//	('s3://world?COCKROACH_LOCALITY=default', 's3://eu?COCKROACH_LOCALITY=region%3Deu')
func (p *reader) list(st *Statement) {
	for more := true; more && p.Err == nil; more = p.Sign(',') {
		text := p.Text("a place")
		u, err := url.Parse(text)
		if err != nil || p.Err != nil {
			p.Fail("a place")
			return
		}
		q := u.Query()
		where := q.Get(localityParameter)
		q.Del(localityParameter)
		u.RawQuery = q.Encode()
		region, named := strings.CutPrefix(where, "region=")
		switch {
		case where == "" || where == "default":
			if st.place != "" {
				p.Wrong("two places of %s are for rows of all regions: all but one say whose rows they get, with "+
					"?%s=region%%3DNAME", st.Name(), localityParameter)
				return
			}
			st.place = u.String()
		case named:
			p.region(st, region, u.String())
		default:
			p.Wrong("%s=%s is neither default nor region%%3DNAME: other parts of a locality have no places of their own", localityParameter, where)
			return
		}
	}
	if !p.Sign(')') {
		p.Fail(")")
	}
	if st.place == "" && p.Err == nil {
		p.Wrong("no place of %s is for the rows of all other regions: name one without %s", st.Name(), localityParameter)
	}
}

// pairs takes ('what' = 'of' [, ...]).
func (p *reader) pairs(what, of string, fn func(string, string)) {
	if !p.Sign('(') {
		p.Fail("(")
		return
	}
	for more := true; more && p.Err == nil; more = p.Sign(',') {
		left := p.Text(what)
		if !p.Sign('=') {
			p.Fail("=")
			return
		}
		if right := p.Text(of); p.Err == nil {
			fn(left, right)
		}
	}
	if !p.Sign(')') {
		p.Fail(")")
	}
}

func (p *reader) region(st *Statement, region, place string) {
	switch {
	case p.Err != nil:
	case region == "" || st.places[strings.ToLower(region)] != "":
		p.Wrong("region '%s' has two places, or no name", region)
	default:
		if st.places == nil {
			st.places = map[string]string{}
		}
		st.places[strings.ToLower(region)] = place
	}
}

// settle gives the regions of an order their names as the cluster has them, and refuses places
// that would get the files of two.
func (g *Env) settle(o *order) error {
	if len(o.Places) == 0 {
		return nil
	}
	topo, named, used := g.DB.Topology(), map[string]string{}, map[string]string{samePlace(o.Place): "all other regions"}
	for _, name := range slices.Sorted(maps.Keys(o.Places)) {
		id, at := topo.HomeByName(name), o.Places[name]
		if id == 0 {
			return schema.Invalid("there is no region '" + name + "' that could have a place: SHOW GODWIT REGIONS lists them")
		}
		region := topo.RegionName(id)
		if other := used[samePlace(at)]; other != "" {
			return schema.Invalid("'" + at + "' would be the place of region " + region + " and of " + other + ": give each a place of its own")
		}
		named[region], used[samePlace(at)] = at, "region "+region
	}
	o.Places = named
	return nil
}

func samePlace(name string) string { return strings.TrimRight(name, "/") }

// sorting is that of an order; nil: all rows go to one place.
func (g *Env) sorting(o *order) (*residence.Sorting, error) {
	if len(o.Places) == 0 {
		return nil, nil
	}
	s := &residence.Sorting{}
	topo := g.DB.Topology()
	for name := range o.Places {
		id := topo.HomeByName(name)
		if id == 0 {
			return nil, schema.Invalid("region " + name + ", which has a place of its own for backups, has left the cluster: leave it out")
		}
		s.With |= base.RegionsOf(id)
		if o.Part != nil && o.Part.Region == name {
			s.Mine = id
		}
	}
	if o.Part != nil && s.Mine == 0 {
		return nil, schema.Invalid("region " + o.Part.Region + " has no place in the backup that it is to be part of")
	}
	return s, nil
}

// kids are the jobs of the parts of an order.
type kids struct {
	w    *work
	want map[string]string // the regions, by what their jobs are called
	done map[string]partResult
	seen base.Timestamp
	last time.Time
}

// A part that no node of its region takes for longer than claimWithin is an error: it may be that
// none sees the place. Tests have less patience.
var claimWithin = time.Minute

// dispatch makes the jobs of the parts of an order, unless a node before has done so. This node
// does that of its own region; nil: there are no parts.
func (w *work) dispatch(ctx context.Context) (*kids, error) {
	if len(w.o.Places) == 0 || w.o.Part != nil {
		return nil, nil
	}
	k := &kids{w: w, want: map[string]string{}, done: map[string]partResult{}}
	there, err := job.List(ctx, w.g.DB)
	if err != nil {
		return nil, err
	}
	live, err := w.l.ids(ctx)
	if err != nil {
		return nil, err
	}
	oldest := base.Timestamp(0)
	for _, id := range live {
		if v, err := w.l.volume(ctx, id); err != nil {
			return nil, err
		} else if v != nil {
			oldest = v.Timestamp
			break
		}
	}
	for _, region := range slices.Sorted(maps.Keys(w.o.Places)) {
		what := fmt.Sprintf("%s, rows of %s for job %d", w.o.target(), region, w.lease.ID())
		k.want[what] = region
		if slices.ContainsFunc(there, func(r job.Record) bool { return r.What == what }) {
			continue
		}
		o := *w.o
		o.Place = w.o.Places[region]
		o.Part = &partOrder{Region: region, Main: w.o.Place, Of: w.lease.ID(), Live: live, Oldest: oldest}
		spec, err := json.Marshal(&o)
		if err != nil {
			return nil, err
		}
		lease, err := job.Create(ctx, w.g.DB, job.Record{Kind: string(o.Verb), What: what, User: w.user, Spec: spec, Brisk: o.Verb == verbLog})
		if err != nil {
			return nil, err
		}
		if w.g.region() == region && w.g.reachesPart(ctx, &o) == nil {
			w.g.start(lease, &o)
		} else if err := lease.Release(ctx); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// region is the name of this node's region.
func (g *Env) region() string { return g.DB.Topology().RegionName(g.DB.Region()) }

// look reads how the jobs of the parts are, and counts them. One that has failed, or that nobody
// takes, is an error.
func (k *kids) look(ctx context.Context) (begun, ended int, err error) {
	all, err := job.List(ctx, k.w.g.DB)
	if err != nil {
		return 0, 0, err
	}
	for _, r := range all {
		region := k.want[r.What]
		if region == "" {
			continue
		}
		failed := func(why string) (int, int, error) {
			return 0, 0, schema.Invalid(fmt.Sprintf("the rows of region %s did not get to '%s' (job %d): %s", region,
				k.w.o.Places[region], r.ID, why))
		}
		switch {
		case r.State == job.Succeeded:
			var res partResult
			if err := json.Unmarshal(r.Result, &res); err != nil {
				return failed("its result cannot be read: " + err.Error())
			}
			k.done[region] = res
			ended++
			begun++
		case r.State != job.Running:
			return failed(strings.TrimSuffix(string(r.State)+": "+r.Error, ": "))
		case r.Term > 1 || r.Until > 0:
			begun++
		case k.w.g.DB.Time().Sub(r.Started) > claimWithin:
			return failed(fmt.Sprintf("no node of the region has taken the job within %s: does one run, and does it see the place "+
				"(--backup-dir, --backup-bucket)?", claimWithin))
		}
	}
	return begun, ended, nil
}

// await waits until all parts have begun, or have ended; k may be nil.
func (k *kids) await(ctx context.Context, end bool) error {
	if k == nil {
		return nil
	}
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		if at, _ := k.w.g.DB.MetaVersion(job.Span()); at > k.seen || time.Since(k.last) > followEvery {
			k.seen, k.last = at, time.Now()
			begun, ended, err := k.look(ctx)
			if err != nil {
				return err
			}
			if n := len(k.want); ended == n || begun == n && !end {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// places are the places of the parts, as the manifest names them.
func (k *kids) places() (out []archive.Place) {
	if k == nil {
		return nil
	}
	for _, region := range slices.Sorted(maps.Keys(k.done)) {
		r := k.done[region]
		out = append(out, archive.Place{Region: region, Place: k.w.o.Places[region], SHA256: r.SHA256, Rows: r.Rows, Files: r.Files,
			Bytes: r.Bytes, Compared: r.Compared})
	}
	return out
}

// part does the job of a part with fn until it is done, or until the job that it belongs to has
// ended.
func (w *work) part(ctx context.Context, fn func(context.Context) outcome) outcome {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	seen := base.Timestamp(0)
	stop := job.Regularly(inner, followEvery/2, func(ctx context.Context) bool {
		at, _ := w.g.DB.MetaVersion(job.Span())
		if at <= seen {
			return true
		}
		all, err := job.List(ctx, w.g.DB)
		if err != nil {
			return true
		}
		seen = at
		i := slices.IndexFunc(all, func(r job.Record) bool { return r.ID == w.o.Part.Of })
		if i < 0 || all[i].State != job.Running {
			cancel(job.ErrCanceled)
			return false
		}
		return true
	})
	defer stop()
	// The folder of a part is marked by the node that takes it first.
	if err := w.l.mark(inner, w.o); err != nil && !errors.Is(err, fs.ErrExist) {
		return outcome{err: err}
	}
	end := fn(inner)
	if c := context.Cause(inner); c != nil && ctx.Err() == nil {
		end.err = c
	}
	return end
}

// reachesPart reports why this node cannot go on with the part of its region.
func (g *Env) reachesPart(ctx context.Context, o *order) error {
	p, err := g.openPlace(ctx, o.Place, true)
	if err != nil {
		return err
	}
	defer p.Close()
	if o.Parent == "" {
		return nil
	}
	_, err = p.Read(ctx, o.Parent+"/"+archive.ManifestName, mostManifestFile)
	return err // a directory of another machine may have the same name
}

// finish leaves what the main backup has to know of a part, and removes older parts that are of no
// use any more.
func (t *taking) finish(ctx context.Context, manifest []byte) error {
	sum := sha256.Sum256(manifest)
	res := partResult{SHA256: sum[:], Rows: t.m.Rows(), Bytes: t.m.Bytes()}
	if v := (&volume{Manifest: t.m}); t.m.Parent != "" {
		res.Compared = v.compared()
	}
	t.m.Files(func(archive.File) { res.Files++ })
	if err := t.lease.Result(res); err != nil {
		return err
	}
	ids, err := t.l.ids(ctx)
	if err != nil {
		return err
	}
	busy, err := t.g.busy(ctx, t.lease.ID())
	if err != nil {
		return err
	}
	for _, id := range slices.Backward(ids) { // the newest first: what builds on others
		if id >= t.m.ID || busy[id] || slices.Contains(t.o.Part.Live, id) {
			continue
		}
		v, err := t.l.volume(ctx, id)
		if err != nil || v == nil || v.Main != t.o.Part.Main {
			continue // it is not ours to judge
		}
		if err := t.l.remove(ctx, id, archive.ManifestName); err != nil {
			return err
		}
		t.g.Log.Info("a region's part of a backup is not kept any longer", "backup", id, "region", t.o.Part.Region)
	}
	if t.o.Keep > 0 && t.o.Part.Oldest > 0 {
		return t.l.trim(ctx, t.o.Part.Oldest)
	}
	return nil
}

// source is one of the places that a backup lies in, with what a restore reads there.
type source struct {
	region string // whose rows; "": those of all others
	l      *library
	chain  []*volume  // the oldest first
	log    []*segment // behind the chain
}

// top is the last of the chain.
func (s *source) top() *volume { return s.chain[len(s.chain)-1] }

// streams are those of a table.
func (s *source) streams(id base.TableID) []archive.Stream {
	if at := s.top().byID[id]; at != nil {
		return at.Streams
	}
	return nil
}

// of is the library of a region's rows.
func (l *library) of(ctx context.Context, region, at string) (*library, error) {
	if x := l.parts[region]; x != nil {
		return x, nil
	}
	if to := l.given[strings.ToLower(region)]; to != "" {
		at = to
	}
	p, err := l.g.openPlace(ctx, at, false)
	if err != nil {
		return nil, schema.Invalid(fmt.Sprintf("the rows of region %s lie in '%s', which this node cannot read: %v. Run the statement at "+
			"a node that can, or say where they are now: PLACES ('%s' = '...')", region, at, err, region))
	}
	if l.parts == nil {
		l.parts = map[string]*library{}
	}
	x := &library{g: l.g, place: p, keys: l.keys, name: at, region: region}
	l.parts[region] = x
	return x, nil
}

// in says in which place of a region something is wrong.
func (l *library) in(err error) error {
	if err == nil || l == nil || l.region == "" {
		return err
	}
	return fmt.Errorf("in '%s', the place of region %s: %w", l.name, l.region, err)
}

// close closes the places.
func (l *library) close() {
	for _, x := range l.parts {
		x.close()
	}
	l.place.Close()
}

// partOf is a region's part of a backup.
func (l *library) partOf(ctx context.Context, v *volume, pl archive.Place) (*volume, error) {
	x, err := l.of(ctx, pl.Region, pl.Place)
	if err != nil {
		return nil, err
	}
	part, err := x.volume(ctx, v.ID)
	switch file := v.ID + "/" + archive.ManifestName; {
	case err != nil:
		return nil, x.in(err)
	case part == nil:
		return nil, x.in(&archive.FileError{File: file, Why: "it is missing"})
	case string(part.sum[:]) != string(pl.SHA256):
		return nil, x.in(&archive.FileError{File: file, Why: "it is not the one that the backup was taken with"})
	}
	return part, nil
}

// sources are the main place of a backup, and those of its regions.
func (l *library) sources(ctx context.Context, v *volume) ([]*source, error) {
	chain, err := l.chain(ctx, v)
	if err != nil {
		return nil, err
	}
	out := []*source{{l: l, chain: chain}}
	for _, pl := range v.Places {
		part, err := l.partOf(ctx, v, pl)
		if err != nil {
			return nil, err
		}
		s := &source{region: pl.Region, l: part.l}
		if s.chain, err = part.l.chain(ctx, part); err != nil {
			return nil, part.l.in(err)
		}
		out = append(out, s)
	}
	return out, nil
}

// logs are the sources of a backup with the segments that lead from it to a moment, or as far as
// they do without a gap in any place; to is how far that is, and short the source that ends there.
func (l *library) logs(ctx context.Context, v *volume, upTo base.Timestamp) (out []*source, to base.Timestamp, short *source, err error) {
	if out, err = l.sources(ctx, v); err != nil {
		return nil, 0, nil, err
	}
	to = math.MaxInt64
	for _, s := range out {
		var end base.Timestamp
		if s.log, end, err = s.l.log(ctx, s.top(), upTo); err != nil {
			return nil, 0, nil, s.l.in(err)
		}
		if end < to {
			to, short = end, s
		}
	}
	return out, to, short, nil
}

// samePlaces reports whether a backup has the places of an order.
func (v *volume) samePlaces(o *order) bool {
	if len(v.Places) != len(o.Places) {
		return false
	}
	for _, pl := range v.Places {
		if o.Places[pl.Region] != pl.Place {
			return false
		}
	}
	return true
}

// window is a period of the logs of all sources, whose versions are applied together.
type window struct {
	from, to base.Timestamp
	segments []*segment
}

// coarse is how many times as long as usual a segment is that no window cuts: it would be read as
// many times.
const coarse = 8

// windows divides the logs of the sources. The segments of the main place are the measure: those of
// regions begin and end at other times, and a row may have moved from one place to another.
func (p *plan) windows() (out []window) {
	log := p.srcs[0].log
	w := window{}
	for i, m := range log {
		if w.to == 0 {
			w.from = m.From
		}
		w.to = m.To
		cut := slices.ContainsFunc(p.srcs[1:], func(s *source) bool {
			return slices.ContainsFunc(s.log, func(x *segment) bool { return x.From < m.To && x.To > m.To && x.To.Sub(x.From) > coarse*logEvery })
		})
		if cut && i < len(log)-1 {
			continue
		}
		for _, s := range p.srcs {
			for _, x := range s.log {
				if x.From < w.to && x.To > w.from {
					w.segments = append(w.segments, x)
				}
			}
		}
		out = append(out, w)
		w = window{}
	}
	return out
}

// has reports whether a version of a segment belongs to the window. Versions of rows that are older
// than the definition of their table belong where that does, wherever they lie.
func (w *window) has(s *segment, ts base.Timestamp, t base.TableID) bool {
	ts = max(ts, s.Fresh[t])
	return ts > w.from && ts <= w.to
}
