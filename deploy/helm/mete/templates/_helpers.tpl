{{- define "mete.labels" -}}
app.kubernetes.io/name: mete
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
