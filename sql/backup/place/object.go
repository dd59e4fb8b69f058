package place

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"strings"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// Object is a file that is read in parts. Safe for concurrent use.
type Object interface {
	// ReadAt reads as io.ReaderAt does. In a bucket each call is a request.
	io.ReaderAt
	// From reads what lies behind an offset.
	From(ctx context.Context, offset int64) (io.ReadCloser, error)
	Size() int64
	Close() error
}

// Split divides the name of a file, or of several by a pattern of path.Match, into that of its
// place and the rest.
func Split(name string) (place, file string, err error) {
	u, err := url.Parse(name)
	if err != nil {
		return "", "", fmt.Errorf("%q is no name of a file: %v", name, err)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", "", fmt.Errorf("%q has more than a path: parameters and credentials of a bucket belong to the node, "+
			"which is started with --backup-bucket", u.Redacted())
	}
	dir, file := path.Split(u.Path)
	if file == "" || file == "." || file == ".." || u.Scheme == "" {
		return "", "", fmt.Errorf("%q names no file: name file:///DIRECTORY/FILE, s3://BUCKET/PATH or the like with gs:// or azblob://; "+
			"* stands for any part of a file's name", name)
	}
	if _, err := path.Match(file, ""); err != nil {
		return "", "", fmt.Errorf("%q: %v", name, err)
	}
	u.Path, u.RawPath = dir, ""
	return u.String(), file, nil
}

// IsPattern reports whether a name stands for several.
func IsPattern(file string) bool { return strings.ContainsAny(file, `*?[\`) }

// Top lists the files of a place that lie in no folder, in order.
func Top(ctx context.Context, p Place) ([]string, error) { return p.Files(ctx, ".") }

// Object implements Place.
func (d dir) Object(_ context.Context, name string) (Object, error) {
	f, err := d.root.Open(name)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s is no file", name)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return dirFile{f, st.Size()}, nil
}

type dirFile struct {
	*os.File
	size int64
}

func (f dirFile) Size() int64 { return f.size }

func (f dirFile) From(_ context.Context, offset int64) (io.ReadCloser, error) {
	return io.NopCloser(io.NewSectionReader(f.File, offset, max(f.size-offset, 0))), nil
}

// Object implements Place.
func (b bucket) Object(ctx context.Context, name string) (Object, error) {
	a, err := b.b.Attributes(ctx, name)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
	}
	if err != nil {
		return nil, err
	}
	return bucketFile{ctx: ctx, b: b.b, name: name, size: a.Size}, nil
}

// bucketFile is a file of a bucket; ctx is that of its reader.
type bucketFile struct {
	ctx  context.Context
	b    *blob.Bucket
	name string
	size int64
}

func (f bucketFile) Size() int64  { return f.size }
func (f bucketFile) Close() error { return nil }

func (f bucketFile) From(ctx context.Context, offset int64) (io.ReadCloser, error) {
	if offset >= f.size {
		return io.NopCloser(strings.NewReader("")), nil
	}
	return f.b.NewRangeReader(ctx, f.name, offset, -1, nil)
}

func (f bucketFile) ReadAt(p []byte, offset int64) (int, error) {
	n := min(int64(len(p)), f.size-offset)
	if n <= 0 {
		return 0, io.EOF
	}
	r, err := f.b.NewRangeReader(f.ctx, f.name, offset, n, nil)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	k, err := io.ReadFull(r, p[:n])
	if err == nil && k < len(p) {
		err = io.EOF
	}
	return k, err
}
