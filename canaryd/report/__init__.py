"""The report of a series: estimates in, pictures and pages out; nothing here averages or squares anything."""
