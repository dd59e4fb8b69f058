package backup

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/admit"
	"github.com/godwitdb/godwit/sql/backup/archive"
	"github.com/godwitdb/godwit/sql/backup/merge"
	"github.com/godwitdb/godwit/sql/backup/pace"
	"github.com/godwitdb/godwit/sql/backup/place"
	"github.com/godwitdb/godwit/sql/ddl"
	"github.com/godwitdb/godwit/sql/rights"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
)

// Env is what the statements of one gateway share.
type Env struct {
	*ddl.Env
	Policy place.Policy
	// Rights are those of the user of a statement.
	Rights func(*sql.Context) rights.Set
	// Resolve is the schema of a table with the expressions of its generated columns.
	Resolve func(*sql.Context, *schema.Table) sql.Schema
	// OpenPlace opens a place for tests; nil: the policy does.
	OpenPlace func(ctx context.Context, name string) (place.Place, error)
	// Turns are those of the node's statements; nil: nobody waits.
	Turns *admit.Pool
	// Closing reports whether this gateway is about to stop; nil: nobody knows.
	Closing func() bool
	// Pace bounds how fast this node writes backups and restored rows; nil: there is no bound.
	Pace *pace.Pace
}

// Run runs a statement, and returns when it has ended.
func (g *Env) Run(ctx *sql.Context, st *Statement) ([]sql.Row, error) {
	if st.err != nil {
		return nil, st.err
	}
	if !g.Rights(ctx).Dynamic(rights.BackupAdmin) {
		return nil, rights.ErrNeeds("SUPER", rights.BackupAdmin)
	}
	s := session.Of(ctx)
	if s == nil {
		return nil, schema.Invalid(st.Name() + " needs a session")
	}
	if s.Explicit(ctx) {
		return nil, schema.Invalid(st.Name() + " is no part of a transaction: COMMIT first, or SET autocommit = 1")
	}
	if err := st.complete(ctx.GetCurrentDatabase()); err != nil {
		return nil, err
	}
	if run := map[verb]func(*sql.Context, *Statement) ([]sql.Row, error){verbCancel: g.cancelJob, verbDrop: g.dropSchedule,
		verbSchedules: g.showSchedules}[st.verb]; run != nil {
		rows, err := run(ctx, st)
		return rows, clientError(err)
	}
	if st.live() {
		rows, err := g.startFlashback(ctx, s, st)
		return rows, clientError(err)
	}
	p, err := g.openPlace(ctx, st.place, slices.Contains([]verb{verbBackup, verbLog, verbCreate}, st.verb))
	if err != nil {
		return nil, schema.Invalid(err.Error())
	}
	l := &library{g: g, place: p, keys: archive.NewKeyring(st.passphrase), name: st.place, given: st.places}
	defer l.close()
	var rows []sql.Row
	switch st.verb {
	case verbBackup:
		rows, err = g.backup(ctx, s, st, l)
	case verbRestore:
		rows, err = g.restore(ctx, s, st, l)
	case verbShow:
		rows, err = l.show(ctx)
	case verbVerify:
		if st.byTable {
			rows, err = l.rehearse(ctx, st)
		} else {
			rows, err = l.verify(ctx)
		}
	case verbLog:
		rows, err = g.startLog(ctx, s, st, l)
	case verbShowLog:
		rows, err = l.showLog(ctx)
	case verbCreate:
		rows, err = g.createSchedule(ctx, st, l)
	}
	return rows, clientError(err)
}

// openPlace opens the place with a name. make makes a directory that is not there.
func (g *Env) openPlace(ctx context.Context, name string, make bool) (place.Place, error) {
	if g.OpenPlace != nil {
		return g.OpenPlace(ctx, name)
	}
	return g.Policy.Open(ctx, name, make)
}

// clientError words what only this package knows.
func clientError(err error) error {
	var f *archive.FileError
	var p *fs.PathError
	switch {
	case errors.As(err, &f), errors.As(err, &p):
		return schema.Invalid(err.Error())
	}
	return schema.ClientError(err)
}

// library is the backups of one place.
type library struct {
	g     *Env
	place place.Place
	keys  *archive.Keyring // nil: no passphrase was given
	name  string           // of the place
	// region is the one whose rows are there; "": it is the main place, or there is no other.
	region string
	parts  map[string]*library // of regions, as far as they were opened
	// given are places of regions, by their names in lower case, that a statement names in the
	// place of those that backups name.
	given map[string]string
}

// volume is one backup of a library.
type volume struct {
	*archive.Manifest
	l   *library
	key *archive.Key      // of its files; nil: they are not encrypted
	sum [sha256.Size]byte // of the file of the manifest
	// live: the rows are old versions of the cluster's own tables; there are no files.
	live bool
	// byID are the tables by their ids, once index was called.
	byID map[base.TableID]*archive.Table
}

// ids are the folders that may be backups, the oldest first.
func (l *library) ids(ctx context.Context) ([]string, error) {
	all, err := l.place.Folders(ctx)
	if err != nil {
		return nil, err
	}
	ids := slices.DeleteFunc(all, func(id string) bool { return !archive.IsID(id) })
	slices.Sort(ids)
	return ids, nil
}

// mostManifestFile bounds the file of a manifest, as it is stored.
const mostManifestFile = 128 << 20

// volume reads a manifest; nil if there is none: the backup was never completed.
func (l *library) volume(ctx context.Context, id string) (*volume, error) {
	b, err := l.place.Read(ctx, id+"/"+archive.ManifestName, mostManifestFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("backup file %s/%s: %w", id, archive.ManifestName, err)
	}
	m, key, err := archive.DecodeManifest(id, b, l.keys)
	if err != nil {
		return nil, err
	}
	if !strings.EqualFold(m.Region, l.region) {
		return nil, &archive.FileError{File: id + "/" + archive.ManifestName, Why: otherRegion(m.Region, m.Main)}
	}
	return &volume{Manifest: m, l: l, key: key, sum: sha256.Sum256(b)}, nil
}

// otherRegion says why a file is of no use in a place.
func otherRegion(region, main string) string {
	if region == "" {
		return "it is not that of one region's rows: give each region a place of its own"
	}
	return "it has the rows of region " + region + " only, of the backup in '" + main + "': name that place"
}

// newest is the newest complete backup; nil if there is none. torn are newer ones that are not
// complete.
func (l *library) newest(ctx context.Context) (v *volume, torn []string, err error) {
	ids, err := l.ids(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, id := range slices.Backward(ids) {
		if v, err = l.volume(ctx, id); v != nil || err != nil {
			return v, torn, err
		}
		torn = append(torn, id)
	}
	return nil, torn, nil
}

// read reads a piece.
func (v *volume) read(ctx context.Context, f archive.File, kind archive.Kind) (*archive.Decoder, error) {
	b, err := v.l.place.Read(ctx, v.ID+"/"+f.Name, archive.MostFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &archive.FileError{File: v.ID + "/" + f.Name, Why: "it is missing"}
	}
	if err != nil {
		return nil, fmt.Errorf("backup file %s/%s: %w", v.ID, f.Name, err)
	}
	return archive.Open(v.ID, f, kind, b, v.key)
}

// cursor reads the records of a stream.
func (v *volume) cursor(s *archive.Stream, kind archive.Kind) *merge.Cursor {
	files := s.Rows
	if kind == archive.KeyPiece {
		files = s.Keys
	}
	return &merge.Cursor{Left: files, In: v.l.in, Read: func(ctx context.Context, f archive.File) (*archive.Decoder, error) {
		return v.read(ctx, f, kind)
	}}
}

// at runs a transaction that reads one snapshot, with the patience of a statement that has just
// begun: what takes hours may well lose a node now and then. These reads count as no use of the
// rows.
func (g *Env) at(ctx context.Context, ts base.Timestamp, fn func(context.Context, kv.Txn) error) error {
	ctx = kv.WithQuiet(ctx)
	_, err := kv.Run(ctx, g.DB, kv.Options{ReadOnly: true, ReadTS: ts}, func(k kv.Txn) error {
		return fn(kv.WithPatience(ctx, kv.NewPatience()), k)
	})
	return err
}
