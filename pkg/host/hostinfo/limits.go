package hostinfo

// maxUserDatabase is how much is read of the user database. A local one has
// some kilobytes; the rest of an absurd one is not worth a slow start.
const maxUserDatabase = 4 << 20
