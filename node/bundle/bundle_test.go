package bundle

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// untar reads a bundle; whole says that it ends as one does.
func untar(t *testing.T, b []byte) (files map[string]string, whole bool) {
	t.Helper()
	files = map[string]string{}
	for r := tar.NewReader(bytes.NewReader(b)); ; {
		h, err := r.Next()
		if err != nil {
			return files, err == io.EOF && whole
		}
		body, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = string(body)
		whole = h.Name == ErrorsName
	}
}

func says(text string) func(context.Context, io.Writer) error {
	return func(_ context.Context, w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

// TestWrite: a part that fails, one that is too long and one that never ends are noted, and the
// others are there in time.
func TestWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, stop := time.Now(), make(chan struct{})
		var b bytes.Buffer
		err := Write(t.Context(), &b, []Part{
			{"good", says("12345")},
			{"long", says("123456789")},
			{"bad", func(context.Context, io.Writer) error { return errors.New("no: 'secret'") }},
			{"half", func(_ context.Context, w io.Writer) error {
				_ = says("12")(t.Context(), w)
				return errors.New("then nothing")
			}},
			{"stuck", func(context.Context, io.Writer) error { <-stop; return nil }},
			{"stuck too", func(context.Context, io.Writer) error { <-stop; return nil }},
			{"last", says("3")},
		}, Limits{Time: 5 * time.Second, Bytes: 6})
		if err != nil || time.Since(begin) != 5*time.Second {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
		close(stop)
		files, whole := untar(t, b.Bytes())
		late := "it was not there in time: context deadline exceeded\n"
		want := map[string]string{"good": "12345", "long": "123456", "half": "12", "last": "3", ErrorsName: "long: " + errCut.Error() +
			"\nbad: no: '?'\nhalf: then nothing\nstuck: " + late + "stuck too: " + late}
		if fmt.Sprint(files) != fmt.Sprint(want) || !whole {
			t.Errorf("whole is %t, files are\n%q, want\n%q", whole, files, want)
		}
	})
}

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"node 3's clock and the nodes' disks":             "node 3's clock and the nodes' disks",
		"near 'secret' at 5":                              "near '?' at 5",
		"a = 'it''s \\' secret' AND b":                    "a = '?' AND b",
		"N'secret', _utf8mb4'secret', x'01'":              "N'?', _utf8mb4'?', x'?'",
		"cut off 'secret":                                 "cut off '?'",
		"row shop.carts(7, a(b)) moved":                   "row shop.carts(?) moved",
		"duplicate unique key given: [secret,4]":          "duplicate unique key given: ?",
		"Duplicate entry 42 for key":                      "Duplicate entry ?",
		"Truncated incorrect DOUBLE value: secret":        "Truncated incorrect DOUBLE value: ?",
		"SET CLUSTER SETTING a = 'x\\":                    "SET CLUSTER SETTING a = '?'",
		"godwit start --region eu (see docs/security.md)": "godwit start --region eu (see docs/security.md)",
	} {
		if got := Text(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func TestHide(t *testing.T) {
	in := `{"token":"s","Root_Password":"s","span":"s","pk":7,"tokens":["s",1],"tables":[{"name":"n","key":["s"]}],"n":7,
		"kind":"ADD COLUMN c INT DEFAULT 4711","ok":true,"none":null,"empty":{"passphrase":""},"list":[{"secret_x":"s"}]}`
	var v any
	if err := json.Unmarshal([]byte(in), &v); err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(Hide("", v))
	want := `{"Root_Password":"(removed)","empty":{"passphrase":""},"kind":"ADD COLUMN c INT DEFAULT ?",` +
		`"list":[{"secret_x":"(removed)"}],"n":7,"none":null,"ok":true,"pk":"(removed)","span":"(removed)",` +
		`"tables":[{"key":"(removed)","name":"n"}],"token":"(removed)","tokens":"(removed)"}`
	if err != nil || string(got) != want {
		t.Errorf("%s\nwant %s, %v", got, want, err)
	}
}

// secretLog writes what must not be seen, and what may.
func secretLog(h slog.Handler) {
	l := slog.New(h)
	l.With("token", "secret").WithGroup("g").Warn("it's near 'secret'", "n", 7, "key", 4711, "statement", `SELECT "secret"`, "err",
		errors.New("x = 'secret'"), slog.Group("h", "password", "secret", "took", time.Second))
	l.Debug("not logged", "n", 8)
}

// TestRecent: lines of the log are kept without secrets, the newest of them, and the log itself is
// as before.
func TestRecent(t *testing.T) {
	var log, kept, alone bytes.Buffer
	secretLog(slog.NewTextHandler(&alone, &slog.HandlerOptions{ReplaceAttr: noTime}))
	r := NewRecent(1 << 10)
	secretLog(r.Over(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: noTime})))
	if _, err := r.WriteTo(&kept); err != nil {
		t.Fatal(err)
	}
	if log.String() != alone.String() || !strings.Contains(log.String(), "secret") {
		t.Errorf("the log is\n%s, alone\n%s", log.String(), alone.String())
	}
	_, got, _ := strings.Cut(kept.String(), `"level"`)
	want := `:"WARN","msg":"it's near '?'","token":"(removed)","g":{"n":7,"key":"(removed)","statement":"(removed)",` +
		`"err":"x = '?'","h":{"password":"(removed)","took":1000000000}}}` + "\n"
	if got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	l := slog.New(r.Over(slog.DiscardHandler))
	l.Error("not taken, since the other handler does not take it")
	for i := range 100 {
		_, _ = fmt.Fprintf(r, "{\"line\":%d}\n", i)
	}
	kept.Reset()
	_, _ = r.WriteTo(&kept)
	if s := kept.String(); len(s) > 1<<10+60 || !strings.HasPrefix(s, `{"msg":"older lines are gone","lines":`) ||
		!strings.HasSuffix(s, "{\"line\":99}\n") || strings.Contains(s, "not taken") {
		t.Errorf("%d bytes are kept:\n%s", len(s), s)
	}
}

func noTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

// TestTail: the newest lines of a log's files, text and JSON, without secrets.
func TestTail(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "with [brackets]")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var text, jsonLines bytes.Buffer
	secretLog(slog.NewTextHandler(&text, nil))
	secretLog(slog.NewJSONHandler(&jsonLines, nil))
	file := filepath.Join(dir, "godwit.log")
	for name, body := range map[string]string{
		"godwit.log":                         jsonLines.String() + text.String() + "panic: 'secret'\n",
		"godwit-2026-01-02T00-00-00.000.log": "newer\n",
		"godwit-2026-01-01T00-00-00.000.log": "line=1\nline=2\nline=3\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	size := int64(jsonLines.Len() + text.Len() + len("panic: 'secret'\n") + len("newer\n"))
	if err := Tail(&b, file, size+10); err != nil { // 10: the last line of the oldest file, and a part of one
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if len(got) != 5 || got[0] != "line=3" || got[1] != "newer" || got[4] != "panic: '?'" || strings.Contains(b.String(), "secret") ||
		!json.Valid([]byte(got[2])) || !strings.Contains(got[2], `"key":"(removed)"`) || !strings.Contains(got[2], `"n":7`) ||
		!strings.Contains(got[3], `g.statement="(removed)"`) || !strings.Contains(got[3], "g.n=7") {
		t.Errorf("%d lines:\n%s", len(got), b.String())
	}
	if err := Tail(&b, filepath.Join(dir, "none.log"), 10); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}
