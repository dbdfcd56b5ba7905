"""History: incidents, evidence, labels and samples of many recordings as Parquet, and questions about them in SQL."""
