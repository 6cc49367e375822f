"""The study: it compares methods on many data sets, as papers do."""
