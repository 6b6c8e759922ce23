package egress

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"codex.internal/pkg/host/safeopen"
)

// bundleVariables are the environment variables that name the file of certificate authorities that
// programs trust: those that Codex CLI sets, and those of deno, of the AWS tools and of Nix. With
// any of them except NODE_EXTRA_CA_CERTS and DENO_CERT, a program no longer trusts the system's
// authorities, so a bundle contains those too.
var bundleVariables = []string{
	"CODEX_CA_CERTIFICATE", "SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO",
	"PIP_CERT", "BUNDLE_SSL_CA_CERT", "CARGO_HTTP_CAINFO", "NPM_CONFIG_CAFILE", "npm_config_cafile", "DENO_CERT", "AWS_CA_BUNDLE",
	"NIX_SSL_CERT_FILE",
}

// systemBundles are the paths at which systems store their certificate authorities, in the order of
// crypto/x509.
var systemBundles = []string{
	"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/pki/tls/cacert.pem",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem",
}

// bundle is a file with the certificate authorities that a process trusts. It is alone in its
// directory. The directory is locked before the file is created. So if a directory with a file is
// not locked, its server was killed.
type bundle struct {
	path   string
	root   *os.Root // the directory
	locked *os.File // the directory again, for its lock
}

// bundleName is the name of the file, and bundleDir the prefix of its directory's
// name.
const (
	bundleName = "ca-bundle.pem"
	bundleDir  = "codex-proxy-"
)

// newBundle writes a bundle below dir, or below the directory for temporary files if dir is empty.
// The file belongs to this user and is not writable. A sandbox must not let a process of the same
// user change it.
func newBundle(dir string, system, own []byte) (*bundle, error) {
	fail := func(err error) (*bundle, error) {
		return nil, fmt.Errorf("write the certificate bundle of a process: %w", err)
	}
	if dir != "" {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fail(err)
		}
	}
	dir, err := os.MkdirTemp(dir, bundleDir)
	if err != nil {
		return fail(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fail(errors.Join(err, os.Remove(dir)))
	}
	b := &bundle{path: filepath.Join(dir, bundleName), root: root}
	if b.locked, err = root.Open("."); err == nil {
		err = lock(b.locked)
	}
	if err == nil || errors.Is(err, errors.ErrUnsupported) {
		err = b.write(system, own)
	}
	if err != nil {
		b.close()
		return fail(err)
	}
	return b, nil
}

func (b *bundle) write(system, own []byte) error {
	f, err := b.root.OpenFile(bundleName, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o400)
	if err != nil {
		return err
	}
	if len(system) > 0 && system[len(system)-1] != '\n' {
		system = append(system[:len(system):len(system)], '\n')
	}
	_, err = f.Write(append(system[:len(system):len(system)], own...))
	return errors.Join(err, f.Close())
}

// close removes the bundle. It removes the directory only if the directory has no other entries.
func (b *bundle) close() {
	_ = b.root.Remove(bundleName)
	_ = b.root.Close()
	_ = os.Remove(filepath.Dir(b.path))
	_ = b.locked.Close()
}

// RemoveBundles removes the certificate bundles in dir that killed servers have left
// behind, and returns their number. It does not remove directories of other users, directories
// that a running server has locked, targets of links, and other files beside a
// bundle.
func RemoveBundles(dir string) (removed int, err error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("remove certificate bundles: %w", err)
	}
	defer root.Close()
	list, err := root.Open(".")
	if err != nil {
		return 0, fmt.Errorf("remove certificate bundles: %w", err)
	}
	defer list.Close()
	names, err := list.Readdirnames(maxBundles)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, fmt.Errorf("remove certificate bundles: %w", err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, bundleDir) && removeBundle(root, name) {
			removed++
		}
	}
	return removed, nil
}

// removeBundle removes one directory, if a killed server has left it behind.
func removeBundle(root *os.Root, name string) bool {
	link, err := root.Lstat(name)
	if err != nil || !link.IsDir() || !ownedByUser(link) {
		return false
	}
	inner, err := root.OpenRoot(name)
	if err != nil {
		return false
	}
	defer inner.Close()
	dir, err := inner.Open(".")
	if err != nil {
		return false
	}
	defer dir.Close()
	info, err := dir.Stat()
	if err != nil || !os.SameFile(info, link) {
		return false // exchanged for a link meanwhile
	}
	// A directory without a file may be new, and not yet locked.
	if _, err := inner.Lstat(bundleName); err != nil || lock(dir) != nil {
		return false
	}
	return inner.Remove(bundleName) == nil && root.Remove(name) == nil
}

// systemBundle returns the certificate authorities that this program trusts: those of
// SSL_CERT_FILE, or otherwise those of the system. It returns nil if it finds none.
func systemBundle(getenv func(string) string) ([]byte, error) {
	paths := systemBundles
	if named := getenv("SSL_CERT_FILE"); named != "" {
		paths = []string{named}
	}
	for _, path := range paths {
		text, err := safeopen.ReadFile(path, maxBundle)
		switch {
		case err == nil:
			return text, nil
		case !errors.Is(err, os.ErrNotExist):
			return nil, fmt.Errorf("read the system's certificate authorities: %w", err)
		}
	}
	return nil, nil
}
