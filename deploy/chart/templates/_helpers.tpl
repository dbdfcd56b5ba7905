{{- define "skewscope.uses-api" -}}
{{- or .Values.acting.enabled .Values.leaderElection.enabled -}}
{{- end }}
