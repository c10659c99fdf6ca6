// Package report turns results into tables and pictures.
//
// It reads the JSON of `mete bench` and of `vllm bench serve`, which have the
// same names, groups runs by their label, compares groups with their spread, and
// draws. A picture is a list of shapes that is written as SVG or painted as PNG;
// a page holds its pictures and the figures they are drawn from, and loads
// nothing.
package report
