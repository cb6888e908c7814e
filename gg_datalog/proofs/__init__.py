"""Why a relation holds: explanations, certificates, and a checker of their own."""
