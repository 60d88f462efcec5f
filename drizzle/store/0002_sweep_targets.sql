-- The targets that the last round compared: those of the configuration of the process that leads. Null: no round has told yet.
-- A mark in emend.sweep stays when a worker no longer knows its target, so the marks cannot tell.
alter table emend.sweep_round add column targets text[];
