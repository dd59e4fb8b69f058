package place

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"io/fs"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/fsouza/fake-gcs-server/fakestorage"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"gocloud.dev/blob/memblob"
)

// TestPlaces: all kinds of places do the same.
func TestPlaces(t *testing.T) {
	ctx := t.Context()
	open := func(p Policy, name string) Place {
		t.Helper()
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		pl, err := p.Open(ctx, name, true)
		if err != nil {
			t.Fatal(err)
		}
		return pl
	}
	dir := t.TempDir()
	url, gs := fakeS3(t, "backups"), fakeGCS(t, "backups")
	for name, p := range map[string]Place{
		"directory": open(Policy{Dir: dir}, "file://"+filepath.ToSlash(dir)+"/a/b"),
		"memory":    NewBucket(memblob.OpenBucket(nil)),
		"s3":        open(Policy{Buckets: []string{url}}, "s3://backups"),
		"s3 below":  open(Policy{Buckets: []string{url}}, "s3://backups/daily/one"),
		"gs":        open(Policy{Buckets: []string{gs}}, "gs://backups"),
		"gs below":  open(Policy{Buckets: []string{gs}}, "gs://backups/daily/one"),
	} {
		t.Run(name, func(t *testing.T) { samePlace(t, p) })
	}
}

func samePlace(t *testing.T, p Place) {
	t.Helper()
	ctx := t.Context()
	if got, err := p.Folders(ctx); len(got) != 0 && !slices.Equal(got, []string{"daily"}) || err != nil {
		t.Errorf("an empty place has %q, %v", got, err)
	}
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	for name, data := range map[string][]byte{"x/one": []byte("1"), "x/two": large, "y/one": nil} {
		if err := p.Write(ctx, name, data); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := p.Folders(ctx); !slices.Equal(slices.DeleteFunc(got, func(s string) bool { return s == "daily" }),
		[]string{"x", "y"}) || err != nil {
		t.Errorf("folders: %q, %v", got, err)
	}
	if got, err := p.Read(ctx, "x/two", int64(len(large))); !bytes.Equal(got, large) || err != nil {
		t.Errorf("%d bytes are read, %v", len(got), err)
	}
	if _, err := p.Read(ctx, "x/two", int64(len(large))-1); err == nil {
		t.Error("a file that is too large is read")
	}
	if _, err := p.Read(ctx, "x/three", 10); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	parts(t, p, large)
	if err := p.Remove(ctx, "y/one"); err != nil {
		t.Error(err)
	}
	if _, err := p.Read(ctx, "y/one", 10); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that was removed: %v", err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// parts reads a file in parts, and one at the top.
func parts(t *testing.T, p Place, large []byte) {
	t.Helper()
	ctx := t.Context()
	o, err := p.Object(ctx, "x/two")
	if err != nil || o.Size() != int64(len(large)) {
		t.Fatalf("an object: %v", err)
	}
	b := make([]byte, 10)
	if n, err := o.ReadAt(b, 3); n != 10 || err != nil || string(b) != "3456789abc" {
		t.Errorf("in the middle: %q, %v", b[:n], err)
	}
	if n, err := o.ReadAt(b, o.Size()-4); n != 4 || err != io.EOF || string(b[:n]) != "cdef" {
		t.Errorf("at the end: %q, %v", b[:n], err)
	}
	for _, from := range []int64{0, 17, o.Size()} {
		r, err := o.From(ctx, from)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); !bytes.Equal(got, large[from:]) || err != nil {
			t.Errorf("from %d: %d bytes, %v", from, len(got), err)
		}
		r.Close()
	}
	if err := o.Close(); err != nil {
		t.Error(err)
	}
	if _, err := p.Object(ctx, "x/three"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an object that is not there: %v", err)
	}
	if err := p.Write(ctx, "top", []byte("1")); err != nil {
		t.Fatal(err)
	}
	if got, err := Top(ctx, p); !slices.Equal(got, []string{"top"}) || err != nil {
		t.Errorf("files at the top: %q, %v", got, err)
	}
	if err := p.Remove(ctx, "top"); err != nil {
		t.Error(err)
	}
}

// TestSplit: names of files, and what is none.
func TestSplit(t *testing.T) {
	for name, want := range map[string]string{"file:///a/b.csv": "file:///a/ b.csv", "s3://b/x/*.csv": "s3://b/x/ *.csv", "gs://b/x.sql": "gs://b/ x.sql",
		"file:///a/": "", "s3://b": "", "x.csv": "", "s3://b/x?endpoint=evil": "", "s3://key@b/x": "", "file:///a/[": "", "file:///a/..": ""} {
		at, file, err := Split(name)
		if got := at + " " + file; (err == nil) != (want != "") || err == nil && got != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// fakeS3 runs an S3 server and returns the URL of a bucket in it.
func fakeS3(t *testing.T, bucket string) string {
	t.Helper()
	back := s3mem.New()
	srv := httptest.NewServer(gofakes3.New(back).Server())
	t.Cleanup(srv.Close)
	if err := back.CreateBucket(bucket); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	return "s3://" + bucket + "?region=us-east-1&use_path_style=true&endpoint=" + srv.URL
}

// fakeGCS runs a server of Google Cloud Storage's protocol and returns the URL of a bucket in it.
func fakeGCS(t *testing.T, bucket string) string {
	t.Helper()
	srv, err := fakestorage.NewServerWithOptions(fakestorage.Options{Scheme: "http", Host: "127.0.0.1", PublicHost: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Stop)
	srv.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: bucket})
	t.Setenv("STORAGE_EMULATOR_HOST", strings.TrimPrefix(srv.URL(), "http://"))
	return "gs://" + bucket
}

// TestAzure needs Microsoft's emulator of Azure Blob Storage.
func TestAzure(t *testing.T) {
	emulator, err := exec.LookPath("azurite-blob")
	if err != nil {
		t.Skip("azurite-blob is not in PATH: npm install -g azurite")
	}
	const port, account = "10077", "devstoreaccount1"
	key := base64.StdEncoding.EncodeToString([]byte("a key of this test alone"))
	cmd := exec.Command(emulator, "--blobPort", port, "--inMemoryPersistence", "--silent",
		"--skipApiVersionCheck")
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "AZURITE_ACCOUNTS="+account+":"+key)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	t.Setenv("AZURE_STORAGE_ACCOUNT", account)
	t.Setenv("AZURE_STORAGE_KEY", key)
	at := "127.0.0.1:" + port
	cred, err := azblob.NewSharedKeyCredential(account, key)
	if err != nil {
		t.Fatal(err)
	}
	client, err := azblob.NewClientWithSharedKeyCredential("http://"+at+"/"+account, cred, nil)
	if err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		if _, err = client.CreateContainer(t.Context(), "backups", nil); err == nil {
			break
		} else if time.Since(begin) > time.Minute {
			t.Fatal(err)
		}
	}
	at = "?protocol=http&localemu=true&domain=" + at
	p := Policy{Buckets: []string{"azblob://backups" + at, "azblob://none" + at}}
	none, err := p.Open(t.Context(), "azblob://none", true)
	if err != nil {
		t.Fatal(err)
	}
	if err := none.Write(t.Context(), "x", []byte("1")); err == nil || !strings.Contains(err.Error(), "ContainerNotFound") {
		t.Errorf("a write to a container that is not there: %v", err)
	}
	for _, name := range []string{"azblob://backups", "azblob://backups/daily/one"} {
		pl, err := p.Open(t.Context(), name, true)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) { samePlace(t, pl) })
	}
}

// TestBucketsOfThePolicy: a statement reaches the buckets of the policy, below their paths.
func TestBucketsOfThePolicy(t *testing.T) {
	url := fakeS3(t, "b")
	below := "s3://b/in/here" + url[len("s3://b"):]
	for name, ok := range map[string]bool{"s3://b/in/here": true, "s3://b/in/here/x": true, "s3://b/in/hereafter": false,
		"gs://b/in/here": false, "s3://b/in": false, "s3://b": false, "s3://b/in/here/../x": false, "s3://c/in/here": false} {
		p := Policy{Buckets: []string{below}}
		pl, err := p.Open(t.Context(), name, true)
		if (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
		if pl != nil {
			pl.Close()
		}
	}
}

// TestWritesAreWhole: a file is never written over, and what a crash has left of one does no harm.
func TestWritesAreWhole(t *testing.T) {
	dir := t.TempDir()
	p, err := (&Policy{Dir: dir}).Open(t.Context(), "file://"+filepath.ToSlash(dir), true)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := os.Mkdir(filepath.Join(dir, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "x", "f"+partial), []byte("left by a crash"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Read(t.Context(), "x/f", 100); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("half a file is read: %v", err)
	}
	if err := p.Write(t.Context(), "x/f", []byte("1")); err != nil {
		t.Fatal(err)
	}
	if err := p.Write(t.Context(), "x/f", []byte("2")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second write: %v", err)
	}
	if got, err := p.Read(t.Context(), "x/f", 100); string(got) != "1" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
