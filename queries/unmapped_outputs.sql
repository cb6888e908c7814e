-- Outputs that are not rebuilt, and what each rank returns for them.
-- seq: the sequential output; status: unmapped or inconclusive; rank, dist: what is returned;
-- state: right, piece, coefficient, part (of a reduction) or nothing; times: the coefficient.
SELECT o.seq, o.status, r.rank, r.dist, r.state, r.times
FROM output_status o LEFT JOIN returned_state r USING (wants)
WHERE o.status <> 'mapped'
ORDER BY o.wants, r.rank;
