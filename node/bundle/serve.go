package bundle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"runtime"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/godwitdb/godwit/obs"
)

// Path serves a bundle of a node as a tar stream, to administrators.
const Path = "/debug/bundle"

// Request asks for a bundle.
type Request struct {
	// Profile is how long the processor is profiled; 0: no profile of it.
	Profile time.Duration `json:"profile_ns"`
	// Within is how long the node may take to make what it sends, more than Profile and 10 min at
	// most.
	Within time.Duration `json:"within_ns"`
}

const (
	// MaxProfile bounds the time for which a processor is profiled.
	MaxProfile = 30 * time.Second
	maxTime    = 10 * time.Minute
	// maxPart bounds a file of a bundle, in bytes.
	maxPart = 16 << 20
	// fullStacks is up to how many goroutines are listed one by one.
	fullStacks = 5000
)

// Server answers requests for bundles, one at a time. It implements http.Handler.
type Server struct {
	// Parts are those of the node, without profiles.
	Parts []Part
	// NoProfiles is why there are no profiles; nil: there are.
	NoProfiles error
	// Log gets what is worth a line.
	Log *slog.Logger

	turn chan struct{}
}

// NewServer makes a server.
func NewServer(parts []Part, noProfiles error, log *slog.Logger) *Server {
	return &Server{Parts: parts, NoProfiles: noProfiles, Log: log, turn: make(chan struct{}, 1)}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q Request
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		refuse(w, http.StatusBadRequest, "malformed request: "+err.Error())
		return
	}
	if q.Profile < 0 || q.Profile > MaxProfile || q.Within <= q.Profile || q.Within > maxTime {
		refuse(w, http.StatusBadRequest, fmt.Sprintf("profile_ns is 0 to %s, within_ns more than that and %s at most", MaxProfile, maxTime))
		return
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	default:
		refuse(w, http.StatusConflict, "the node makes another bundle just now: try again when it is done")
		return
	}
	w.Header().Set("Content-Type", "application/x-tar")
	parts := append(s.Parts[:len(s.Parts):len(s.Parts)], s.profiles(q.Profile)...)
	if err := Write(r.Context(), w, parts, Limits{Time: q.Within, Bytes: maxPart}); err != nil {
		s.Log.Warn("a bundle for debugging was not sent whole", "err", err)
	}
}

func refuse(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": why}) // an error means that the client is gone
}

// profiles are those of the process.
func (s *Server) profiles(cpu time.Duration) []Part {
	parts := []Part{
		{"profiles/heap.pprof", func(_ context.Context, w io.Writer) error { return pprof.Lookup("heap").WriteTo(w, 0) }},
		{"profiles/goroutines.txt", func(_ context.Context, w io.Writer) error {
			how := 2 // one by one, with how long each has waited
			if runtime.NumGoroutine() > fullStacks {
				how = 1
			}
			return pprof.Lookup("goroutine").WriteTo(w, how)
		}},
	}
	if cpu > 0 {
		parts = append(parts, Part{"profiles/cpu.pprof", func(ctx context.Context, w io.Writer) error { return profile(ctx, w, cpu) }})
	}
	if s.NoProfiles != nil {
		for i := range parts {
			parts[i].Make = func(context.Context, io.Writer) error { return s.NoProfiles }
		}
	}
	return parts
}

// profile profiles the processor for a while.
func profile(ctx context.Context, w io.Writer, d time.Duration) error {
	if err := pprof.StartCPUProfile(w); err != nil {
		return err
	}
	defer pprof.StopCPUProfile()
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// JSON is a part that shows a value, without what may not be seen.
func JSON(name string, get func(ctx context.Context) (any, error)) Part {
	return Part{name, func(ctx context.Context, w io.Writer) error {
		v, err := get(ctx)
		if err != nil {
			return err
		}
		raw, err := json.Marshal(v)
		if err != nil {
			return err
		}
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		var plain any
		if err := d.Decode(&plain); err != nil {
			return err
		}
		e := json.NewEncoder(w)
		e.SetIndent("", " ")
		return e.Encode(Hide("", plain))
	}}
}

// Version is what the process is; it began at a time.
func Version(began time.Time) any {
	return map[string]any{"version": obs.Version(), "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH,
		"processors": runtime.NumCPU(), "gomaxprocs": runtime.GOMAXPROCS(0), "goroutines": runtime.NumGoroutine(),
		"memory_bytes": obs.MemoryBytes(), "up": time.Since(began).Round(time.Millisecond).String(), "now": time.Now().UTC()}
}

// Flags are the fields of a struct that have names in YAML, by these. Of addresses the parameters
// are cut off.
func Flags(cfg any) map[string]any {
	out := map[string]any{}
	v := reflect.ValueOf(cfg)
	for i := range v.NumField() {
		name := v.Type().Field(i).Tag.Get("yaml")
		if name == "" {
			continue
		}
		switch x := v.Field(i).Interface().(type) {
		case time.Duration:
			out[name] = x.String()
		case []string:
			cut := []string{}
			for _, s := range x {
				if strings.Contains(s, "://") {
					s, _, _ = strings.Cut(s, "?")
				}
				cut = append(cut, s)
			}
			out[name] = cut
		default:
			out[name] = x
		}
	}
	return out
}

// Body is a part that is what a handler answers to a GET.
func Body(name string, handler func() (http.Handler, error)) Part {
	return Part{name, func(ctx context.Context, w io.Writer) error {
		h, err := handler()
		if err != nil {
			return err
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/"+name, nil)
		if err != nil {
			return err
		}
		a := &answer{w: w, h: http.Header{}}
		h.ServeHTTP(a, r)
		if a.status >= http.StatusBadRequest {
			return errors.New(http.StatusText(a.status))
		}
		return nil
	}}
}

// answer takes the body of an answer.
type answer struct {
	w      io.Writer
	h      http.Header
	status int
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.h }

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) { return a.w.Write(p) }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) { a.status = status }
