// Package doctor finds out how well a host can confine commands: which backends of the sandbox work
// for this user, what the kernel or its configuration forbids, and how to allow it.
//
//	report := doctor.Examine(ctx)
//	if !report.WorkspaceWrite { ... }
//
// The launcher tries the backends with the same code that confines commands, and reports which
// step of making a sandbox failed (codex-linux-sandbox --probe). Then each working backend
// enforces two policies on a child, which tries to break them. Settings of the host are read only
// to explain what forbids a step. The children are this program itself, which must therefore pass
// the arguments after Arg to Main.
package doctor

// Arg is the first argument of the children. It is not a command for people.
const Arg = "--codex-run-as-probe"

// Schema is the version of Report's JSON. It changes when a field is removed or
// changes its meaning, but not when fields and checks are added.
const Schema = 1

// Status is the outcome of a check.
type Status string

// The outcomes.
const (
	// OK means that the check succeeded.
	OK Status = "ok"
	// Warning means that some feature works less well, but every policy can be enforced.
	Warning Status = "warning"
	// Failed means that a backend does not work because of this.
	Failed Status = "failed"
	// Absent means that a feature is missing or does not work, but is not needed here.
	Absent Status = "absent"
)

// Names of checks, in the order of a report.
const (
	UserNamespace    = "userNamespace"    // CLONE_NEWUSER
	UserMapping      = "userMapping"      // this user, in a user namespace
	MountNamespace   = "mountNamespace"   // with private mounts and a tmpfs in it
	MountAPI         = "mountAPI"         // fsopen, open_tree, mount_setattr (Linux 5.12)
	PIDNamespace     = "pidNamespace"     // CLONE_NEWPID
	FreshProc        = "freshProc"        // a new /proc in a PID namespace
	NetworkNamespace = "networkNamespace" // with its loopback interface up
	OtherNamespaces  = "otherNamespaces"  // IPC and UTS
	Seccomp          = "seccomp"          // filters of system calls
	Landlock         = "landlock"         // version 6 (Linux 6.12)
	Broker           = "broker"           // changes of files without namespaces
	SecondWall       = "secondWall"       // Landlock on top of the mounts: version 2 (Linux 5.19)
	Bubblewrap       = "bubblewrap"       // the program bwrap
	Terminal         = "terminal"         // PTYs
	Cgroup           = "cgroup"           // a writable cgroup v2 with cgroup.kill
	Helpers          = "helpers"          // codex-linux-sandbox and codex-fs
	Inotify          = "inotify"          // a watch
)

// Check is the result of one test. If a step fails, the later steps are not tried and have no
// check.
type Check struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	// Detail is the result in a few words: a version, or the failure.
	Detail string `json:"detail"`
	// Matters is the consequence of a failure; empty if the check succeeded.
	Matters string `json:"matters,omitempty"`
	// Causes are the possible causes, the most likely first.
	Causes []string `json:"causes"`
	// Fixes are the remedies, each for the cause of the same index: a
	// command, a setting, a package.
	Fixes []string `json:"fixes"`
}

// Backend reports what a backend of the sandbox can enforce here. The backend has confined a child,
// and the doctor has checked what the child could do.
type Backend struct {
	Name string `json:"name"`
	// Works reports whether the launcher says that the backend works. If it does not, Reason is the
	// launcher's reason.
	Works bool `json:"works"`
	// ReadOnly and WorkspaceWrite report whether the backend enforces these policies.
	ReadOnly       bool   `json:"readOnly"`
	WorkspaceWrite bool   `json:"workspaceWrite"`
	Reason         string `json:"reason,omitempty"`
	// OwnSockets means that a command without a network can connect to its own
	// Unix sockets by path. It needs WorkspaceWrite.
	OwnSockets bool `json:"ownSockets"`
}

// Choice is the backend that `auto` selects.
type Choice struct {
	// Backend is the first one that works, or empty.
	Backend string `json:"backend"`
	Reason  string `json:"reason"`
}

// Report is the result of an examination.
type Report struct {
	Schema  int    `json:"schema"`
	Version string `json:"version"` // of the program that asks, which sets it
	System  string `json:"system"`  // as GOOS
	Arch    string `json:"arch"`    // as GOARCH
	Kernel  string `json:"kernel"`  // its release; empty if not Linux
	UID     int    `json:"uid"`
	// Container is docker, podman, kubernetes, or another word by which a container names itself.
	// It is empty outside of a container.
	Container string `json:"container"`
	// ReadOnly and WorkspaceWrite report whether at least one backend enforces these policies.
	ReadOnly       bool      `json:"readOnly"`
	WorkspaceWrite bool      `json:"workspaceWrite"`
	Auto           Choice    `json:"auto"`
	Backends       []Backend `json:"backends"`
	Checks         []Check   `json:"checks"`
	// Notes are sentences about the whole report.
	Notes []string `json:"notes"`
}

// Check returns the check with a name, or nil if there is no such check.
func (r *Report) Check(name string) *Check {
	for i := range r.Checks {
		if r.Checks[i].Name == name {
			return &r.Checks[i]
		}
	}
	return nil
}
