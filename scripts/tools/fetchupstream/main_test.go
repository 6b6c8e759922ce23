package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"crypto/sha512"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
)

// pack returns a package with a program, and its checksum.
func pack(t *testing.T) (content []byte, sum string) {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	files := tar.NewWriter(z)
	for _, name := range []string{"package/README.md", "package/vendor/x/bin/codex"} {
		data := make([]byte, 100_000)
		_, _ = rand.Read(data) // it never fails
		if err := files.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: int64(len(data)), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		if _, err := files.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	digest := sha512.Sum512(b.Bytes())
	return b.Bytes(), base64.StdEncoding.EncodeToString(digest[:])
}

// TestStore: an interrupted download is retried, and a download with a different checksum is not
// stored.
func TestStore(t *testing.T) {
	content, sum := pack(t)
	for name, tt := range map[string]struct {
		breaks   int32 // so many answers break off
		sum      string
		requests int32
		stored   bool
	}{
		"at once":          {0, sum, 1, true},
		"after a break":    {1, sum, 2, true},
		"too many breaks":  {fetchTries, sum, fetchTries, false},
		"another checksum": {0, "another", fetchTries, false},
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int32
			service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if requests.Add(1) <= tt.breaks {
					_, _ = w.Write(content[:len(content)*3/4])
					panic(http.ErrAbortHandler)
				}
				_, _ = w.Write(content)
			}))
			defer service.Close()
			dir := t.TempDir()
			err := store(service.URL, tt.sum, filepath.Join(dir, "codex"))
			if (err == nil) != tt.stored || requests.Load() != tt.requests {
				t.Errorf("%v after %d requests", err, requests.Load())
			}
			binary, found := find(filepath.Join(dir, "codex"))
			if (found == nil) != tt.stored {
				t.Errorf("the package is there: %q, %v", binary, found)
			}
			if st, err := os.Stat(binary); tt.stored && (err != nil || st.Mode().Perm()&0o111 == 0) {
				t.Errorf("%s: got st %v, error %v; want no error", binary, st, err)
			}
			if left, err := filepath.Glob(filepath.Join(dir, ".fetch-*")); err != nil || len(left) > 0 {
				t.Errorf("left: %q, %v", left, err)
			}
		})
	}
}
