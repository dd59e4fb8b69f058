package sink

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// Registry gives schemas their numbers. Safe for concurrent use.
type Registry struct {
	C   *http.Client
	URL *url.URL // without user
	// User and Password are sent if there is a user.
	User, Password string

	mu  sync.Mutex
	ids map[string]int32
}

// mostNumber bounds what is read of an answer of a registry.
const mostNumber = 64 << 10

// RefusedError is that of a registry which refuses a schema: trying again is of no use.
type RefusedError struct{ Why string }

func (e *RefusedError) Error() string { return e.Why }

// ID is the number of a schema under a subject. The registry is asked once for each.
func (r *Registry) ID(ctx context.Context, subject, schema string) (int32, error) {
	k := subject + "\x00" + schema
	r.mu.Lock()
	id, known := r.ids[k]
	r.mu.Unlock()
	if known {
		return id, nil
	}
	id, err := r.register(ctx, subject, schema)
	if err != nil {
		return 0, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ids == nil {
		r.ids = map[string]int32{}
	}
	r.ids[k] = id
	return id, nil
}

func (r *Registry) register(ctx context.Context, subject, schema string) (int32, error) {
	body, err := json.Marshal(map[string]string{"schema": schema})
	if err != nil {
		return 0, err
	}
	at := r.URL.JoinPath("subjects", url.PathEscape(subject), "versions")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at.String(), bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/vnd.schemaregistry.v1+json")
	if r.User != "" {
		req.SetBasicAuth(r.User, r.Password)
	}
	res, err := r.C.Do(req)
	if err != nil {
		return 0, fmt.Errorf("the schema registry at %s: %w", r.URL.Host, err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, mostNumber))
	if err != nil {
		return 0, fmt.Errorf("the schema registry at %s: %w", r.URL.Host, err)
	}
	return answer(r.URL.Host, subject, res.StatusCode, b)
}

// answer reads what a registry says.
func answer(host, subject string, status int, b []byte) (int32, error) {
	var a struct {
		ID      *int64 `json:"id"`
		Message string `json:"message"`
	}
	err := json.Unmarshal(b, &a)
	why := fmt.Sprintf("the schema registry at %s answers %d %s for subject %s", host, status, http.StatusText(status), subject)
	if a.Message != "" {
		why += ": " + strings.ToValidUTF8(a.Message[:min(len(a.Message), 500)], "?")
	}
	switch {
	case status == http.StatusConflict || status == http.StatusUnprocessableEntity:
		return 0, &RefusedError{why + " (a definition has changed in a way that the registry's rule of compatibility for the subject does " +
			"not allow)"}
	case status/100 != 2:
		return 0, fmt.Errorf("%s", why)
	case err != nil || a.ID == nil || *a.ID < 0 || *a.ID > 1<<31-1:
		return 0, fmt.Errorf("%s, and no number of a schema", why)
	}
	return int32(*a.ID), nil
}
