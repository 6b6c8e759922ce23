// Package account groups what belongs to the user of this machine and not to one
// server or connection:
//
//	home         the directory of configuration and credentials, config.toml
//	signin signing in, and the resulting credentials in auth.json
//	registry     the client of the environment registry
//	httpclient   HTTP with the proxies and certificates of the environment
//
// The packages may import relay, for the keys with which an executor registers, and the packages
// that relay may import. They must not import servers or clients. Secrets have types that do not
// print their contents.
//
// The types are API for programs that embed a server or a client and want to
// sign in as codex does.
package account
