"""Actions: plans of changes at targets, their approval, and their life until they are verified, undone or refused."""
