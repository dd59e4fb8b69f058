// Package place is where backups are kept: a directory of the node's machine, or a bucket of an
// object store: one that speaks S3, Google Cloud Storage, or Azure Blob Storage. What a statement
// may name is decided by the operator of the node ([Policy]), since it is the node that reads and
// writes there.
//
// A file is written as a whole and is there, durably, when Write returns; a reader never sees a
// part of one. Files are never changed.
package place

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"gocloud.dev/blob"
	"gocloud.dev/blob/azureblob"
	"gocloud.dev/blob/gcsblob"
	"gocloud.dev/blob/s3blob"
	"gocloud.dev/gcerrors"
)

// Policy says what statements may name.
type Policy struct {
	// Dir is the directory below which file:// may lead; empty: nowhere.
	Dir string
	// Buckets are the buckets that s3://, gs:// and azblob:// may name, each as a URL with the
	// parameters of gocloud.dev/blob/s3blob, gcsblob or azureblob, such as
	// s3://bucket?region=eu-west-1. A path restricts statements to what lies below it.
	Buckets []string
}

// schemes are those of buckets: S3, Google Cloud Storage, Azure Blob Storage.
var schemes = []string{s3blob.Scheme, gcsblob.Scheme, azureblob.Scheme}

// Check reports what is wrong with the policy.
func (p *Policy) Check() error {
	if p.Dir != "" && !filepath.IsAbs(p.Dir) {
		return fmt.Errorf("backup-dir: %q is no absolute path", p.Dir)
	}
	for _, b := range p.Buckets {
		u, err := url.Parse(b)
		if err != nil || !slices.Contains(schemes, u.Scheme) || u.Host == "" || u.User != nil {
			return fmt.Errorf("backup-bucket: %q is not s3://BUCKET[/PATH][?PARAMETERS], nor the like with gs:// or azblob://", b)
		}
	}
	return nil
}

// Place keeps files. Names are paths with slashes. Safe for concurrent use.
type Place interface {
	// Write makes a file that is not there yet.
	Write(ctx context.Context, name string, data []byte) error
	// Read returns a file. It fails if the file has more than most bytes, and with fs.ErrNotExist
	// if there is none.
	Read(ctx context.Context, name string, most int64) ([]byte, error)
	// Object opens a file that is read in parts. It fails with fs.ErrNotExist if there is none.
	Object(ctx context.Context, name string) (Object, error)
	// Folders lists the folders at the top, in order.
	Folders(ctx context.Context) ([]string, error)
	// Files lists the files in a folder, in order; none if there is no folder. "." is the top.
	Files(ctx context.Context, folder string) ([]string, error)
	// Remove removes a file.
	Remove(ctx context.Context, name string) error
	Close() error
}

// Open opens a place that a statement names. make makes a directory that is not there.
func (p *Policy) Open(ctx context.Context, name string, make bool) (Place, error) {
	u, err := url.Parse(name)
	if err != nil {
		return nil, fmt.Errorf("%q is no place for backups: %v", name, err)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%q has more than a path: parameters and credentials of a bucket belong to the node, "+
			"which is started with --backup-bucket", u.Redacted())
	}
	if u.Scheme == "file" {
		return p.openDir(u, make)
	}
	if slices.Contains(schemes, u.Scheme) {
		return p.openBucket(ctx, u)
	}
	return nil, fmt.Errorf("%q is no place for backups: name file:///DIRECTORY, or s3://BUCKET/PATH, gs://BUCKET/PATH or "+
		"azblob://CONTAINER/PATH", name)
}

func (p *Policy) openDir(u *url.URL, make bool) (Place, error) {
	if p.Dir == "" {
		return nil, errors.New("this node writes and reads no backups in files: start it with --backup-dir DIRECTORY, and " +
			"name that directory or one below it")
	}
	if u.Host != "" || !path.IsAbs(u.Path) {
		return nil, fmt.Errorf("%q names no directory of this node: it begins with file:/// and an absolute path", u)
	}
	rel, err := filepath.Rel(p.Dir, filepath.FromSlash(path.Clean(u.Path)))
	if err != nil || !filepath.IsLocal(rel) {
		return nil, fmt.Errorf("%q does not lie below the directory for backups of this node, which is file://%s", u,
			filepath.ToSlash(p.Dir))
	}
	top, err := os.OpenRoot(p.Dir)
	if err != nil {
		return nil, fmt.Errorf("the directory for backups (--backup-dir): %w", err)
	}
	defer top.Close()
	if make {
		if err := top.MkdirAll(rel, 0o700); err != nil {
			return nil, fmt.Errorf("%s: %w", u, err)
		}
	}
	root, err := top.OpenRoot(rel)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", u, err)
	}
	return dir{root}, nil
}

func (p *Policy) openBucket(ctx context.Context, u *url.URL) (Place, error) {
	want := strings.Trim(path.Clean("/"+u.Path), "/")
	var known []string
	for _, text := range p.Buckets {
		b, err := url.Parse(text)
		if err != nil {
			return nil, err // Check has let it pass
		}
		below := strings.Trim(path.Clean("/"+b.Path), "/")
		known = append(known, b.Scheme+"://"+b.Host+"/"+below)
		if b.Scheme != u.Scheme || b.Host != u.Host || below != "" && want != below && !strings.HasPrefix(want, below+"/") {
			continue
		}
		b.Path = ""
		bk, err := blob.OpenBucket(ctx, b.String())
		if err != nil {
			return nil, err
		}
		if want != "" {
			bk = blob.PrefixedBucket(bk, want+"/")
		}
		return bucket{bk, u.Scheme == azureblob.Scheme}, nil
	}
	if len(known) == 0 {
		return nil, errors.New("this node knows no bucket for backups: start it with --backup-bucket s3://BUCKET, gs://BUCKET or " +
			"azblob://CONTAINER")
	}
	return nil, fmt.Errorf("%q is in none of the buckets for backups of this node, which are %s", u, strings.Join(known, ", "))
}

// NewBucket makes a place of any bucket, for tests.
func NewBucket(b *blob.Bucket) Place { return bucket{b: b} }

// dir is a directory. os.Root sees to it that neither names nor symbolic links lead out of it.
type dir struct{ root *os.Root }

func (d dir) Close() error { return d.root.Close() }

// partial is what a file is called until it is complete.
const partial = ".partial"

func (d dir) Write(_ context.Context, name string, data []byte) (err error) {
	if err := d.root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	if _, err := d.root.Lstat(name); err == nil {
		return &fs.PathError{Op: "write", Path: name, Err: fs.ErrExist}
	}
	f, err := d.root.OpenFile(name+partial, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = d.root.Remove(name + partial)
		}
	}()
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = d.root.Rename(name+partial, name); err != nil {
		return err
	}
	return d.sync(path.Dir(name))
}

// sync makes the names in a folder, and those of the folders above it, durable.
func (d dir) sync(folder string) error {
	for {
		f, err := d.root.Open(folder)
		if err != nil {
			return err
		}
		if err = errors.Join(f.Sync(), f.Close()); err != nil || folder == "." {
			return err
		}
		folder = path.Dir(folder)
	}
}

func (d dir) Read(_ context.Context, name string, most int64) ([]byte, error) {
	f, err := d.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil {
		return nil, err
	} else if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", name)
	}
	return readAll(f, name, most)
}

func readAll(r io.Reader, name string, most int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("%s has more than %d bytes", name, most)
	}
	return b, err
}

func (d dir) Folders(context.Context) (out []string, err error) {
	es, err := fs.ReadDir(d.root.FS(), ".")
	for _, e := range es {
		if e.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out, err
}

func (d dir) Files(_ context.Context, folder string) (out []string, err error) {
	es, err := fs.ReadDir(d.root.FS(), folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range es {
		if e.Type().IsRegular() && !strings.HasSuffix(e.Name(), partial) {
			out = append(out, e.Name())
		}
	}
	return out, err
}

func (d dir) Remove(_ context.Context, name string) error {
	if err := d.root.Remove(name); err != nil {
		return err
	}
	_ = d.root.Remove(path.Dir(name)) // if it is empty now
	return nil
}

// bucket is a bucket of an object store, whose writes are atomic.
type bucket struct {
	b     *blob.Bucket
	azure bool
}

func (b bucket) Close() error { return b.b.Close() }

func (b bucket) Write(ctx context.Context, name string, data []byte) error {
	o := &blob.WriterOptions{ContentType: "application/octet-stream"}
	if b.azure {
		// When the store refuses a file, WriteAll panics there (gocloud.dev v0.47.0).
		return b.b.Upload(ctx, name, bytes.NewReader(data), o)
	}
	return b.b.WriteAll(ctx, name, data, o) // with a sum, by which the store refuses what arrives damaged
}

func (b bucket) Read(ctx context.Context, name string, most int64) ([]byte, error) {
	r, err := b.b.NewReader(ctx, name, nil)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
	}
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return readAll(r, name, most)
}

func (b bucket) Folders(ctx context.Context) (out []string, err error) {
	it := b.b.List(&blob.ListOptions{Delimiter: "/"})
	for {
		o, err := it.Next(ctx)
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if o.IsDir {
			out = append(out, strings.TrimSuffix(o.Key, "/"))
		}
	}
}

func (b bucket) Files(ctx context.Context, folder string) (out []string, err error) {
	prefix := folder + "/"
	if folder == "." {
		prefix = ""
	}
	it := b.b.List(&blob.ListOptions{Prefix: prefix, Delimiter: "/"})
	for {
		o, err := it.Next(ctx)
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if !o.IsDir {
			out = append(out, strings.TrimPrefix(o.Key, prefix))
		}
	}
}

func (b bucket) Remove(ctx context.Context, name string) error { return b.b.Delete(ctx, name) }
