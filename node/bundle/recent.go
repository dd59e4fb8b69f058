package bundle

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Recent keeps the newest lines of a log in memory, as JSON, without what [Hide] hides.
type Recent struct {
	most int // bytes

	mu    sync.Mutex
	lines [][]byte
	size  int
	lost  int // lines that were dropped
}

// NewRecent keeps so many bytes.
func NewRecent(most int) *Recent { return &Recent{most: most} }

// Over is a handler that does what h does, and keeps what h takes.
func (r *Recent) Over(h slog.Handler) slog.Handler {
	return &tee{h, slog.NewJSONHandler(r, &slog.HandlerOptions{Level: slog.LevelDebug - 100, ReplaceAttr: hideAttr})}
}

// Write implements io.Writer: each call is a line.
func (r *Recent) Write(line []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, bytes.Clone(line))
	r.size += len(line)
	for r.size > r.most && len(r.lines) > 0 {
		r.size -= len(r.lines[0])
		r.lines[0] = nil
		r.lines = r.lines[1:]
		r.lost++
	}
	return len(line), nil
}

// WriteTo writes the lines, the oldest first.
func (r *Recent) WriteTo(w io.Writer) (n int64, err error) {
	r.mu.Lock()
	lines, lost := slices.Clone(r.lines), r.lost
	r.mu.Unlock()
	if lost > 0 {
		lines = slices.Insert(lines, 0, []byte(`{"msg":"older lines are gone","lines":`+strconv.Itoa(lost)+"}\n"))
	}
	for _, l := range lines {
		m, err := w.Write(l)
		n += int64(m)
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// hideAttr is [Hide] of an attribute.
func hideAttr(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindTime, slog.KindDuration, slog.KindBool, slog.KindGroup:
		return a
	case slog.KindInt64, slog.KindUint64, slog.KindFloat64:
		if !forbidden(a.Key) {
			return a
		}
	}
	if _, ok := a.Value.Any().(slog.Level); ok {
		return a
	}
	text, _ := Hide(a.Key, a.Value.String()).(string)
	return slog.String(a.Key, text)
}

// tee is two handlers; the second takes what the first does.
type tee struct{ first, second slog.Handler }

// Enabled implements slog.Handler.
func (t *tee) Enabled(ctx context.Context, l slog.Level) bool { return t.first.Enabled(ctx, l) }

// Handle implements slog.Handler.
func (t *tee) Handle(ctx context.Context, r slog.Record) error {
	_ = t.second.Handle(ctx, r) // it writes to memory
	return t.first.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (t *tee) WithAttrs(as []slog.Attr) slog.Handler {
	return &tee{t.first.WithAttrs(as), t.second.WithAttrs(as)}
}

// WithGroup implements slog.Handler.
func (t *tee) WithGroup(name string) slog.Handler {
	return &tee{t.first.WithGroup(name), t.second.WithGroup(name)}
}

// # Files

// Tail writes the newest lines of a log and of its older files, which package lumberjack renames,
// so many bytes at most, without what [Hide] hides.
func Tail(w io.Writer, file string, most int64) error {
	ext := filepath.Ext(file)
	older, err := filepath.Glob(globEscape.Replace(strings.TrimSuffix(file, ext)) + "-*" + globEscape.Replace(ext))
	if err != nil {
		return err
	}
	slices.Sort(older) // the time is in the name
	files := append(older, file)
	from := len(files) // the first one that is read
	left := most
	var skip int64
	for from > 0 && left > 0 {
		s, err := os.Stat(files[from-1])
		if err != nil {
			return err
		}
		from--
		skip = max(0, s.Size()-left)
		left -= s.Size()
	}
	for _, f := range files[from:] {
		if err := hideFile(w, f, skip); err != nil {
			return err
		}
		skip = 0
	}
	return nil
}

var globEscape = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// maxLine bounds a line of a file. What is longer is left out, since it could not be read as one.
const maxLine = 1 << 20

func hideFile(w io.Writer, file string, skip int64) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Seek(skip, io.SeekStart); err != nil {
		return err
	}
	r := bufio.NewReaderSize(f, maxLine)
	whole := skip == 0 // else the first line may have begun before
	for {
		line, err := r.ReadSlice('\n')
		switch {
		case err == bufio.ErrBufferFull:
			whole = false
			continue
		case err != nil && err != io.EOF:
			return err
		case whole && len(line) > 0:
			if _, err := io.WriteString(w, Line(strings.TrimSuffix(string(line), "\n"))+"\n"); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		whole = true
	}
}

var (
	jsonAttr = regexp.MustCompile(`"((?:[^"\\]|\\.)*)":("(?:[^"\\]|\\.)*"|[^,{}\[\]"]+)`)
	textAttr = regexp.MustCompile(`([\w.-]+)=("(?:[^"\\]|\\.)*"|\S*)`)
)

// Line is a line of a log, of text or JSON, without what [Hide] hides.
func Line(s string) string {
	attr, sep, mark := textAttr, "=", ""
	if strings.HasPrefix(s, "{") {
		attr, sep, mark = jsonAttr, ":", `"`
	}
	out := attr.ReplaceAllStringFunc(s, func(m string) string {
		p := attr.FindStringSubmatch(m)
		name, value := p[1], p[2]
		plain, quoted := value, false
		if u, err := strconv.Unquote(value); err == nil {
			plain, quoted = u, true
		}
		hid, _ := Hide(name[strings.LastIndexByte(name, '.')+1:], plain).(string)
		switch {
		case hid == plain:
			return m
		case quoted || mark != "":
			hid = strconv.Quote(hid)
		}
		return mark + name + mark + sep + hid
	})
	if out == s && !attr.MatchString(s) {
		return Text(s) // a panic, or what another library says
	}
	return out
}
