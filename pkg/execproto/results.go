package execproto

// The functions below decode the results that carry files, for a client, with
// the rules of the other Decode functions. Members that a result must have may
// be followed by others.

// DecodeReadFileResult decodes the result of fs/readFile.
func DecodeReadFileResult(src []byte) (ReadFileResult, error) {
	var r ReadFileResult
	err := params(src, need("dataBase64", base64Bytes(&r.DataBase64)))
	return r, err
}

// DecodeReadBlockResult decodes the result of fs/readBlock.
func DecodeReadBlockResult(src []byte) (ReadBlockResult, error) {
	var r ReadBlockResult
	err := params(src,
		need("chunk", base64Bytes(&r.Chunk)),
		need("eof", boolean(&r.EOF)))
	return r, err
}
