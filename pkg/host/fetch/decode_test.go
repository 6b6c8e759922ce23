package fetch

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func gzipped(t *testing.T, text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func zstded(t *testing.T, text string, window int) string {
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b, zstd.WithWindowSize(window), zstd.WithSingleSegment(false))
	if err == nil {
		_, err = io.WriteString(w, text)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Bodies in gzip and zstd arrive decoded, without the two headers about their encoding. Every other
// body arrives as it came.
func TestBodiesAreDecoded(t *testing.T) {
	const text = "hello encoded"
	zip, zst := gzipped(t, text), zstded(t, text, 1<<20)
	large := strings.Repeat("0123456789", 1<<20)
	const broken = "failed to read http/request response body: error decoding response body"
	for name, tt := range map[string]struct {
		encodings []string
		body      string
		status    int
		want, err string
		decoded   bool
	}{
		"gzip":                         {[]string{"gzip"}, zip, 200, text, "", true},
		"zstd":                         {[]string{"zstd"}, zst, 200, text, "", true},
		"gzip with an error status":    {[]string{"gzip"}, zip, 404, text, "", true},
		"gzip that is much smaller":    {[]string{"gzip"}, gzipped(t, large), 200, large, "", true},
		"empty gzip":                   {[]string{"gzip"}, "", 200, "", "", true},
		"empty zstd":                   {[]string{"zstd"}, "", 200, "", "", true},
		"no body":                      {[]string{"gzip"}, "", 304, "", "", true},
		"second member is dropped":     {[]string{"gzip"}, zip + zip, 200, text, "", true},
		"what follows gzip is dropped": {[]string{"gzip"}, zip + "more", 200, text, "", true},
		"no gzip":                      {[]string{"gzip"}, "notgzip", 200, "", broken, true},
		"no zstd":                      {[]string{"zstd"}, "notzstd", 200, "", broken, true},
		"gzip that is cut":             {[]string{"gzip"}, zip[:len(zip)-3], 200, "", broken, true},
		"zstd that is cut":             {[]string{"zstd"}, zst[:len(zst)-3], 200, "", broken, true},
		"zstd with a large window":     {[]string{"zstd"}, zstded(t, large, 16<<20), 200, "", broken, true},
		"capitals":                     {[]string{"GZIP"}, zip, 200, zip, "", false},
		"old name":                     {[]string{"x-gzip"}, zip, 200, zip, "", false},
		"list":                         {[]string{"gzip, gzip"}, zip, 200, zip, "", false},
		"two headers":                  {[]string{"gzip", "gzip"}, zip, 200, zip, "", false},
		"identity":                     {[]string{"identity"}, text, 200, text, "", false},
		"none":                         {nil, zip, 200, zip, "", false},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Encoding"] = tt.encodings
			w.Header().Set("Content-Type", "text/plain")
			w.WriteHeader(tt.status)
			_, _ = io.WriteString(w, tt.body)
		}))
		res, err := client(t).Do(t.Context(), Request{Method: "GET", URL: s.URL})
		if err != nil {
			t.Fatal(err)
		}
		body, err := res.ReadAll(free)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != tt.err || tt.err == "" && string(body) != tt.want {
			t.Errorf("%s: got %.40q of %d bytes, error %q; want %.40q of %d bytes, error %q", name, body, len(body), got, tt.want, len(tt.want), tt.err)
		}
		told := slices.ContainsFunc(res.Headers, func(h Header) bool { return h.Name == "content-encoding" || tt.decoded && h.Name == "content-length" })
		if want := tt.encodings != nil && !tt.decoded; told != want {
			t.Errorf("%s: got headers %v; want content-encoding %t", name, res.Headers, want)
		}
		if err := res.Body.Close(); err != nil {
			t.Errorf("%s: close: %v", name, err)
		}
		s.Close()
	}
}

// A request asks for what Do decodes, unless the client of the exec-server says what it accepts.
func TestEncodingsAreRequested(t *testing.T) {
	s, c := web(t), client(t)
	for given, want := range map[string]string{"": "zstd,gzip", "identity": "identity"} {
		r := Request{Method: "GET", URL: s.URL + "/redirect"}
		if given != "" {
			r.Headers = []Header{{Name: "accept-Encoding", Value: given}}
		}
		res, err := c.Do(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if h := (Header{Name: "x-got-accept-encoding", Value: want}); !slices.Contains(res.Headers, h) {
			t.Errorf("given %q: got headers %v, want %v", given, res.Headers, h)
		}
	}
}

// What the far side has flushed arrives before the rest.
func TestFlushedPartsAreDecodedAtOnce(t *testing.T) {
	type flusher interface {
		io.Writer
		Flush() error
	}
	for encoding, open := range map[string]func(io.Writer) flusher{
		"gzip": func(w io.Writer) flusher { return gzip.NewWriter(w) },
		"zstd": func(w io.Writer) flusher {
			z, err := zstd.NewWriter(w)
			if err != nil {
				t.Error(err)
			}
			return z
		},
	} {
		more := make(chan struct{})
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", encoding)
			z := open(w)
			_, _ = io.WriteString(z, "first")
			_ = z.Flush()
			w.(http.Flusher).Flush()
			select {
			case <-more:
			case <-r.Context().Done():
			}
		}))
		res, err := client(t).Do(t.Context(), Request{Method: "GET", URL: s.URL})
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 100)
		n, err := io.ReadAtLeast(res.Body, buf, len("first"))
		if string(buf[:n]) != "first" || err != nil {
			t.Errorf("%s: got %q, error %v; want %q", encoding, buf[:n], err, "first")
		}
		close(more)
		res.Body.Close()
		s.Close()
	}
}
