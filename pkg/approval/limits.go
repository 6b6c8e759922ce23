package approval

const (
	// maxApprovals bounds the approvals in a Session: far more than a person
	// gives. A further approval counts once.
	maxApprovals = 4096
)
